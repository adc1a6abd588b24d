"""Parquet files as a source, with row groups skipped by their statistics."""
