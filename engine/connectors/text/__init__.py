"""Rows as text: CSV and JSON lines, decoded by batches."""
