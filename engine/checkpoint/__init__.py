"""Checkpoints of a running job: the coordinator, its session, and what is written and read."""
