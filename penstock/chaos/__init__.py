"""Experiments on a pipeline: killed again and again, or simulated under seeds."""
