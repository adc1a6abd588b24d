"""The ways in which a job is run that are compared with each other."""

import resource
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil


@dataclass(frozen=True, slots=True)
class Setting:
    """One way: a name for people, and the options of `run` that stand for it."""

    name: str
    parallelism: int
    task_managers: int | None = None
    transport: str | None = None
    address: str | None = None
    """The Ray cluster on which task managers are actors; None: they are processes."""

    def options(self) -> dict[str, Any]:
        """Return the options of `run`."""
        if self.task_managers is None:
            return {"parallelism": self.parallelism}
        chosen = {"parallelism": self.parallelism, "task_managers": self.task_managers, "transport": self.transport}
        if self.address is None:
            return {"executor": "processes", **chosen}
        return {"executor": "ray", "address": self.address, **chosen}


EMBEDDED = Setting("embedded, parallelism 1", 1)
ONE = Setting("1 task manager, parallelism 2", 2, 1)
TWO = Setting("2 task managers, ring", 2, 2, "ring")
TWO_TCP = Setting("2 task managers, TCP", 2, 2, "tcp")
SETTINGS = (EMBEDDED, ONE, TWO, TWO_TCP)


def on_ray(address: str) -> Setting:
    """Return the setting of two task managers on a Ray cluster, with a head actor."""
    return Setting("2 task managers on Ray, ring", 2, 2, "ring", address)


class Cores:
    """CPU seconds of this process and of its children, those that have ended among them.

    A child that began before counts from then on only. This process is measured in nanoseconds and ended children in
    microseconds, as a short run takes less than a tick of the clock (10 ms) by which living children are measured.
    """

    def __init__(self) -> None:
        """Begin to count."""
        self._children = _children_s()
        self._waited_for = set(psutil.Process().children())
        self._begun = _own_s()

    def cpu_s(self) -> float:
        """Return the seconds since then: at least 0."""
        own, alive = _own_s() - self._begun, _children_s()
        for process, spent in self._children.items():
            if process in alive or process in self._waited_for:
                own -= spent
        return max(0.0, own + sum(alive.values()))


def _own_s() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _children_s() -> dict[psutil.Process, float]:
    spent_s: dict[psutil.Process, float] = {}
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = child.cpu_times()
            spent_s[child] = times.user + times.system
    return spent_s
