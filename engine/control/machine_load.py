"""The load of task managers' machines, foreign processes included, from two readings of each. Pure.

A task manager is a machine of one core here, for its loop is one thread. What others take of the cores that it may use
counts as far as it leaves less than a core for each task manager that may use the same ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from penstock.model.columns import Floats
from penstock.model.snapshot import MachineColumns

PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class MachineReading:
    """The counters of one process and of the cores that it may use, at ``time_ns`` by its monotonic clock.

    ``host`` is the same for all that share cores. ``cpu_ns`` is the CPU of the process since it began; ``busy_ns``, for
    each of ``cores``, that of all processes since the host began, stolen time included. ``throttled_ns``: time in which
    its loop rested as it had used up the CPU that it may use; ``read_bytes`` from disks; ``kills``: processes that were
    ended for lack of memory where it runs; ``memory_bytes`` is what it may use of that, together with all of its host
    that name the same ``memory_group``; NaN: not known.
    """

    time_ns: int
    host: str
    cores: tuple[int, ...]
    cpu_ns: int
    busy_ns: tuple[int, ...]
    resident_bytes: int
    throttled_ns: int = 0
    read_bytes: float = 0.0
    kills: float = 0.0
    memory_bytes: float = float("nan")
    memory_group: str = ""


@dataclass(frozen=True, slots=True)
class MachineWindow:
    """Two readings of one process: ``cpu_percent`` of it between them, ``busy_percent`` of its cores, of all."""

    before: MachineReading
    after: MachineReading
    cpu_percent: float
    busy_percent: float

    @property
    def rest_percent(self) -> float:
        """Of the time its loop rested between them, as it had used up the CPU that it may use."""
        rest_ns = self.after.throttled_ns - self.before.throttled_ns
        return PERCENT * rest_ns / (self.after.time_ns - self.before.time_ns)

    @classmethod
    def between(cls, before: MachineReading | None, after: MachineReading) -> "MachineWindow | None":
        """Return the window between two readings; None: there is none, or they are not of the same cores."""
        if before is None or before.cores != after.cores or after.time_ns <= before.time_ns:
            return None
        length_ns = after.time_ns - before.time_ns
        busy_ns = sum(after.busy_ns) - sum(before.busy_ns)
        return cls(
            before, after, PERCENT * (after.cpu_ns - before.cpu_ns) / length_ns, PERCENT * max(0, busy_ns) / length_ns
        )


def foreign_percent(windows: Mapping[str, MachineWindow]) -> dict[str, float]:
    """Return how much of a core's time each task manager cannot have since foreign processes take it, in [0, 100].

    Those that may use the same cores share what is left of them. A process that is none of ``windows`` is foreign.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name, window in windows.items():
        groups.setdefault((window.after.host, window.after.cores), []).append(name)
    lacking: dict[str, float] = {}
    for (_, cores), names in groups.items():
        busy = sum(windows[name].busy_percent for name in names) / len(names)
        foreign = max(0.0, busy - sum(windows[name].cpu_percent for name in names))
        left = max(0.0, PERCENT * len(cores) - foreign) / len(names)
        lacking |= dict.fromkeys(names, max(0.0, PERCENT - left))
    return lacking


def memory_limits(windows: Mapping[str, MachineWindow]) -> dict[str, float]:
    """Return the memory that each task manager may use, bytes, NaN if not known: what it has, and its part of the rest.

    What those that share a limit have not used is divided evenly, so that the limits of all add up to that limit. What
    processes share, as libraries and rings, counts once for each: if they seem to have more than the limit each has
    what it has, and none is above its own.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for name, window in windows.items():
        groups.setdefault((window.after.host, window.after.memory_group), []).append(name)
    limits: dict[str, float] = {}
    for names in groups.values():
        # There may be hundreds of hosts, of a task manager each.
        read = [windows[name].after for name in names]
        known = [reading.memory_bytes for reading in read]
        if any(map(isnan, known)):
            limits |= dict.fromkeys(names, np.nan)
            continue
        # One that began later may know a limit that was changed.
        free = min(known) - sum(reading.resident_bytes for reading in read)
        for name, reading in zip(names, read, strict=True):
            limits[name] = reading.resident_bytes + max(0.0, free) / len(names)
    return limits


def machine_columns(
    names: Sequence[str],
    elsewhere: Sequence[str],
    windows: Mapping[str, MachineWindow],
    instances_percent: Mapping[str, float],
    silent_s: Mapping[str, float],
) -> MachineColumns:
    """Return the machines: task managers by name, of one core each, then ``elsewhere``, where none may be placed.

    The load of one is what foreign processes take of its core, and what the instances take that run there,
    ``instances_percent``: what a process takes to begin, or took for instances that are gone, is no load that stays.
    ``silent_s``: seconds since each was heard. The limit of memory is that of `memory_limits`.
    """
    foreign = foreign_percent({name: windows[name] for name in names if name in windows})
    limits = memory_limits({name: windows[name] for name in names if name in windows})
    rows = [*names, *elsewhere]
    percent = [foreign[name] + instances_percent.get(name, 0.0) if name in foreign else np.nan for name in rows]
    resident = [float(windows[name].after.resident_bytes) if name in windows else np.nan for name in rows]
    return MachineColumns(
        tuple(rows),
        cores=np.array([1.0] * len(names) + [0.0] * len(elsewhere)),
        cpu_percent=_unless_missing(percent),
        rest_percent=_unless_missing([windows[name].rest_percent if name in windows else np.nan for name in rows]),
        resident_bytes=_unless_missing(resident),
        memory_limit_bytes=_unless_missing([limits.get(name, np.nan) for name in rows]),
        heartbeat_age_s=_unless_missing([silent_s.get(name, np.nan) for name in rows]),
    )


def by_host(names: Sequence[str], readings: Mapping[str, MachineReading]) -> list[str]:
    """Return names in their order, but those of one host together: neighbours share memory."""
    hosts = [readings[name].host if name in readings else "" for name in names]
    order = {host: at for at, host in enumerate(dict.fromkeys(hosts))}
    return [name for _, _, name in sorted((order[host], at, names[at]) for at, host in enumerate(hosts))]


def _unless_missing(values: Sequence[float]) -> Floats | None:
    column = np.array(values, np.float64)
    return None if np.isnan(column).all() else column
