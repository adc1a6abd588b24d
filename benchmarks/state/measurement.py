"""Runs one measurement in a process of its own, on one core or more. Called by the benchmarks of state."""

import json
import os
import subprocess
import sys
from typing import Any


def measured(module: str, request: dict[str, Any], cores: int = 1) -> dict[str, Any]:
    """Run ``python -m MODULE --one REQUEST`` on the last cores of this process and return the JSON of its last line.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    last = sorted(os.sched_getaffinity(0))[-cores:]
    completed = subprocess.run(
        [sys.executable, "-m", module, "--one", json.dumps(request)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, last),
    )
    result: dict[str, Any] = json.loads(completed.stdout.strip().splitlines()[-1])
    return result
