"""Typed expressions compiled to steps over Arrow arrays; `penstock.engine.expressions.compiler` is the way in."""
