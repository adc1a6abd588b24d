"""Executors of a job: in this process, or in a simulated cluster under a virtual clock."""
