"""Compiled loops the operators share."""
