"""The metrics endpoint of a job, and who reads it."""
