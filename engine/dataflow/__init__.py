"""The data path of a job: gates, chains, exchanges, source heads, instances and the worker loop."""
