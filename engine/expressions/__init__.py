"""How typed expressions become steps over Arrow arrays; `penstock.engine.expressions.compiler` is the way in."""
