"""The task managers of a command that another process has started, as the system sees them."""

import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

GONE_WITHIN_S = 5.0
"""How long a task manager may outlive the command."""

_BEGINNING = "penstock tm-"
_LOOK_S = 0.02


def managers_of(pid: int) -> dict[str, psutil.Process]:
    """Return the task managers of a command that live, by their names, as tm-0; those of Ray are further down."""
    living: dict[str, psutil.Process] = {}
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                name = str(process.name())
                if name.startswith(_BEGINNING) and process.status() != psutil.STATUS_ZOMBIE:
                    living[name.rpartition(" ")[2]] = process
    return living


def outliving(managers: Iterable[psutil.Process]) -> list[str]:
    """Wait for the end of task managers whose command has ended; return those that live on after `GONE_WITHIN_S`."""
    until = time.monotonic() + GONE_WITHIN_S
    living = [process for process in managers if _lives(process)]
    while living and time.monotonic() < until:
        time.sleep(_LOOK_S)
        living = [process for process in living if _lives(process)]
    return [f"process {process.pid}" for process in living]


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
