"""The options by which the suite runs jobs on each executor."""

from collections.abc import Mapping
from typing import Any

from tests.long_cases import but_for

PROCESSES: Mapping[str, Any] = {"executor": "processes", "task_managers": 2}
TCP: Mapping[str, Any] = {**PROCESSES, "transport": "tcp"}
RAY: Mapping[str, Any] = {"executor": "ray", "task_managers": 2, "attached": True}
SMALL: Mapping[str, Any] = {"batch_rows": 997, "channel_bytes": 20_000}

EXECUTORS: Mapping[str, Mapping[str, Any]] = {"embedded": {}, "processes": PROCESSES, "ray": RAY}

CASES = but_for(EXECUTORS, ["embedded", "processes"], "on Ray; test_on_ray.py has the least of it")
"""The names of executors as parameters of a test."""
