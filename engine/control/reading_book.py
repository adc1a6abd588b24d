"""The last readings of each task manager, as a head keeps them, and the snapshot of the job that they make."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from penstock.engine.control.cluster_snapshot import NO_OWNERS, cluster_snapshot
from penstock.engine.control.machine_load import MachineReading, MachineWindow, by_host, machine_columns
from penstock.engine.control.part_reading import PartReading
from penstock.engine.control.reading import Known, Reading, ReadingMerger
from penstock.model.columns import Ints
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners
from penstock.model.snapshot import ClusterSnapshot, MachineColumns

FRESH_NS = 3_000_000_000
"""Readings that were heard longer ago count as not measured: what ran then may not run now."""

LEAST_WINDOW_NS = 1_000_000
"""The shortest window of a snapshot."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """A reading of a task manager, and when the head heard it."""

    machine: MachineReading
    part: PartReading | None
    heard_ns: int


@dataclass(frozen=True, slots=True)
class _Seats:
    """The row of each instance's machine, -1: it waits; ``elsewhere`` are the machines behind the ``names``.

    They follow from the other three, which hardly ever change.
    """

    names: Sequence[str]
    caller: str
    places: Mapping[str, str]
    elsewhere: Sequence[str]
    rows: Ints


class ReadingBook:
    """The last two readings of each task manager of a job."""

    def __init__(
        self,
        job: str,
        merger: ReadingMerger,
        now_ns: int,
        numbers: Iterator[int] | None = None,
        *,
        as_sent: bool = False,
    ) -> None:
        """Begin with none; times of snapshots count from now. ``numbers`` are theirs, None: from 1 on.

        ``as_sent``: rows into edges are those behind shedders.
        """
        self._job, self._merger, self._as_sent = job, merger, as_sent
        self._began_ns = self._last_ns = now_ns
        self._numbers = count(1) if numbers is None else numbers
        self._known: Known | None = None
        self._before: dict[str, _Heard] = {}
        self._after: dict[str, _Heard] = {}
        self._seats: _Seats | None = None
        self.windows: Mapping[str, MachineWindow] = {}
        """What the process of each task manager has used in the window of the last snapshot, where that is known."""

    def hear(self, name: str, machine: MachineReading, part: PartReading | None, now_ns: int) -> None:
        """Take in what a task manager says."""
        if name in self._after:
            self._before[name] = self._after[name]
        self._after[name] = _Heard(machine, part, now_ns)

    def begin_with(self, before: "ReadingBook") -> None:
        """Take over what task managers have said of themselves to the book of another plan, not of their instances."""
        self._before, self._after = (
            {name: replace(heard, part=None) for name, heard in heards.items()}
            for heards in (before._before, before._after)
        )

    def forget(self, name: str) -> None:
        """A task manager is gone."""
        self._before.pop(name, None)
        self._after.pop(name, None)

    def snapshot(
        self,
        managers: Sequence[str],
        caller: str,
        places: Mapping[str, str],
        silent_s: Mapping[str, float],
        now_ns: int,
        owners: Mapping[TaskId, Owners] = NO_OWNERS,
    ) -> ClusterSnapshot:
        """Return what was measured since the last snapshot.

        Instances are at ``places``, by name, or wait to be placed; ``managers`` may take them, ``caller`` is the
        process that keeps what it has, or the only one. ``silent_s`` is how long ago each was heard, ``owners`` who has
        the key groups of tasks.
        """
        before_ns, now_ns = self._last_ns, max(now_ns, self._last_ns + LEAST_WINDOW_NS)
        self._last_ns = now_ns
        fresh = {name for name, heard in self._after.items() if now_ns - heard.heard_ns <= FRESH_NS}
        names = by_host(managers, {name: heard.machine for name, heard in self._after.items()})
        seats = self._seated(names, caller, places)
        blank = MachineColumns((*names, *seats.elsewhere), np.zeros(len(names) + len(seats.elsewhere)))
        before, after = (
            self._merged(heards, time_ns, fresh, caller)
            for heards, time_ns in ((self._before, before_ns), (self._after, now_ns))
        )
        figures = (before, after, blank, seats.rows, owners)
        snapshot = cluster_snapshot(self._job, next(self._numbers), *figures, as_sent=self._as_sent)
        windows = {
            name: window
            for name in fresh
            if (window := MachineWindow.between(_machine(self._before.get(name)), self._after[name].machine))
        }
        self.windows = {name: windows[name] for name in names if name in windows}
        machines = machine_columns(names, seats.elsewhere, windows, _cpu_percent(snapshot), silent_s)
        return replace(snapshot, machines=machines)

    def _seated(self, names: Sequence[str], caller: str, places: Mapping[str, str]) -> _Seats:
        """Return where instances are."""
        seats = self._seats
        if seats is None or (seats.names, seats.caller, seats.places) != (names, caller, places):
            # One that is lost keeps a row while instances count as being there.
            elsewhere = [place for place in dict.fromkeys([caller, *places.values()]) if place not in names]
            rows = {"": -1} | {name: row for row, name in enumerate([*names, *elsewhere])}
            here = np.array([rows[places.get(name, "")] for name in self._merger.names], np.int32)
            seats = self._seats = _Seats(names, caller, dict(places), elsewhere, here)
        return seats

    def _merged(self, heards: Mapping[str, _Heard], time_ns: int, fresh: Collection[str], caller: str) -> Reading:
        """Return the reading that was made of what was heard; what ends a window begins the next one."""
        parts = {name: heard.part for name, heard in heards.items() if name in fresh and heard.part is not None}
        cpu_ns = {name: float(heard.machine.cpu_ns) for name, heard in heards.items() if name != caller}
        reading = self._merger.merge(time_ns - self._began_ns, parts, cpu_ns, self._known)
        self._known = parts, reading
        return reading


def _machine(heard: _Heard | None) -> MachineReading | None:
    return None if heard is None else heard.machine


def _cpu_percent(snapshot: ClusterSnapshot) -> dict[str, float]:
    """Return the CPU of the instances that run on each machine, percent of a core; those not measured count nothing."""
    instances, machines = snapshot.instances, snapshot.machines
    if instances.cpu_ns is None:
        return {}
    runs = instances.is_running & ~np.isnan(instances.cpu_ns)
    taken = np.bincount(instances.machine[runs], instances.cpu_ns[runs], len(machines))
    return dict(zip(machines.name, (taken / snapshot.window_s / 1e7).tolist(), strict=True))
