"""Measurements in processes of their own, on one core or more."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


class MeasurementFailedError(SystemExit):
    """A measurement's process failed; left alone, it ends the benchmark."""


def measured(module: str, arguments: Sequence[str], *, cores: int | None = 1) -> Any:
    """Run ``python -m module`` on so many of this process's last cores (None: on all), and return its last line's JSON.

    Raises:
        MeasurementFailedError: it failed; why it has written to stderr.
    """
    last = sorted(os.sched_getaffinity(0))[-(cores or 0) :]
    completed = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, last),
    )
    if completed.returncode:
        raise MeasurementFailedError(f"{module} {' '.join(arguments)} failed; its own words stand above")
    return json.loads(completed.stdout.strip().splitlines()[-1])
