"""Runs of a job: options, interrupts, progress."""
