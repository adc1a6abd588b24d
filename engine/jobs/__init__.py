"""The life of a job over its attempts: restarts, leases, bad records, metrics."""
