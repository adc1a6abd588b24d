"""The processes of a command that another process has started: its task managers, and on Ray its head actor."""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

import psutil

from penstock.chaos.child import Speaker

GONE_WITHIN_S = 5.0
"""How long a task manager may outlive the command."""

_BEGINNING = "penstock tm-"
_ACTORS = ("penstock ", "ray::")
"""How names of processes of ours begin on Ray; it names those after their calls that have not named themselves."""

_LOOK_S = 0.02


def managers_of(pid: int) -> dict[str, psutil.Process]:
    """Return the task managers of a command that live and are its own processes, by their names, as tm-0."""
    living: dict[str, psutil.Process] = {}
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children():
            with suppress(psutil.Error):
                name = str(process.name())
                if name.startswith(_BEGINNING) and process.status() != psutil.STATUS_ZOMBIE:
                    living[name.rpartition(" ")[2]] = process
    return living


def actors_here(speakers: Mapping[str, Speaker]) -> dict[str, psutil.Process]:
    """Return the actors that live on the command's host, of those that have said something, by their names."""
    living: dict[str, psutil.Process] = {}
    for name, speaker in speakers.items():
        if speaker.host is None:
            with suppress(psutil.Error):
                process = psutil.Process(speaker.pid)
                # The number may be another process's by now.
                if process.name().startswith(_ACTORS) and _lives(process):
                    living[name] = process
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
