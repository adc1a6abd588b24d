"""Evaluations on real parts: a Kafka broker, a process that offers rows at a set pace, and a job that runs."""
