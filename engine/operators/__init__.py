"""Operators, one a file: batches in, batches out."""
