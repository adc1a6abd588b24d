"""The ways in which a job is run that are compared with each other."""

import os
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
    """CPU seconds of this process and of its children, those that have ended among them."""

    def __init__(self) -> None:
        """Begin to count."""
        self._begun = _cpu_s()

    def cpu_s(self) -> float:
        """Return the seconds since then."""
        return _cpu_s() - self._begun


def _cpu_s() -> float:
    times = os.times()
    alive = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
        except psutil.Error:
            continue
        alive += spent.user + spent.system
    return times.user + times.system + times.children_user + times.children_system + alive
