"""Examinations of an environment for ``penstock doctor``."""
