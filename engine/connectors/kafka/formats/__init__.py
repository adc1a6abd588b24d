"""Formats of Kafka messages: bytes to rows, and rows to bytes."""
