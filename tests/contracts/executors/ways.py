"""The options by which the suite runs jobs on each executor."""

from collections.abc import Mapping
from typing import Any

PROCESSES: Mapping[str, Any] = {"executor": "processes", "task_managers": 2}
TCP: Mapping[str, Any] = {**PROCESSES, "transport": "tcp"}
SMALL: Mapping[str, Any] = {"batch_rows": 997, "channel_bytes": 20_000}

EXECUTORS: Mapping[str, Mapping[str, Any]] = {"embedded": {}, "processes": PROCESSES}
