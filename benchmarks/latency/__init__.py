"""Latency of rows in a running job, and costs of a job that has little or nothing to do."""
