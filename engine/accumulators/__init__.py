"""Accumulators: what each aggregate keeps in state, one family a file."""
