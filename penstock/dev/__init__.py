"""Kafka and Java on this machine, for development and tests."""
