"""Kernels of keyed state, and how kernels are compiled and cached."""
