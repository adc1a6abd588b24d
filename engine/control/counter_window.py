"""The time between two readings of a job: what was counted in it, and which CPU each instance took. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.engine.control.reading import LogReadings, Reading
from penstock.engine.control.task_layout import EdgeEnds, Numbers, TaskLayout
from penstock.model.columns import Bools, Floats


@dataclass(frozen=True)
class CounterWindow:
    """The time between two readings (None: since the start).

    Parts are read at moments of their own: what was counted between two of them is scaled to the length of the window,
    so that times add up to it.
    """

    before: Reading | None
    after: Reading
    layout: TaskLayout

    @property
    def length_ns(self) -> int:
        """The length of the window."""
        return self.after.time_ns - (0 if self.before is None else self.before.time_ns)

    def since(self, counts: Callable[[Reading], Floats]) -> Floats:
        """Return what was counted in the window, NaN of instances whose counters are not the same."""
        now = counts(self.after)
        if self.before is None:
            return now
        scale = self._scale
        by_row = scale[:, np.newaxis] if now.ndim == 2 else scale
        return _forwards((now - counts(self.before)) * by_row)

    def by_edge(self, counts: Callable[[Reading], Floats], ends: EdgeEnds) -> Floats:
        """Return rows in the window at one end of edges, NaN of instances that began in it."""
        now = counts(self.after)
        if self.before is None:
            return now
        return _forwards((now - counts(self.before)) * self._scale[ends.instance])

    def by_partition(self, counts: Callable[[LogReadings], Floats]) -> Floats:
        """Return what was counted of each partition in the window, NaN of those that were not read all the while."""
        after = self.after.logs
        if self.before is None:
            return np.full(len(after.name), np.nan)
        earlier = np.append(counts(self.before.logs), np.nan)[self._earlier_partitions]
        return _forwards((counts(after) - earlier) * self._scale[after.instance])

    @cached_property
    def _earlier_partitions(self) -> Numbers:
        """Return the row that each partition had in the reading before, -1 of those that were not in it."""
        assert self.before is not None
        before, after = self.before.logs, self.after.logs
        if before.name == after.name and np.array_equal(before.instance, after.instance):
            return np.arange(len(after.name))
        rows = {key: row for row, key in enumerate(zip(before.instance.tolist(), before.name, strict=True))}
        keys = zip(after.instance.tolist(), after.name, strict=True)
        return np.array([rows.get(key, -1) for key in keys], np.int64)

    def cpu_ns(self) -> Floats:
        """Return the CPU of each instance: that of its steps, and its share of what its process took beside them.

        What a process did for its instances in other threads, such as fetching, compacting and uploading, and what its
        loop took, is divided as their own CPU is.
        """
        own = self.since(lambda reading: reading.cpu_ns)
        process = {place: row for row, place in enumerate(self.after.process_cpu_ns)}
        of = np.array([*(process.get(place, -1) for place in self.after.places), -1], np.int64)[self.after.place]
        rows = np.flatnonzero((of >= 0) & ~np.isnan(own))
        of = of[rows]
        taken, count = np.bincount(of, own[rows], len(process)), np.bincount(of, minlength=len(process))
        rest = np.nan_to_num(self._of_processes(rows, of) - taken)[of]
        shares = np.where(taken[of] > 0, own[rows] / np.where(taken[of] > 0, taken[of], 1.0), 1.0 / count[of])
        cpu = own.copy()
        cpu[rows] += np.maximum(rest, 0.0) * shares
        return cpu

    def _of_processes(self, rows: Numbers, of: Numbers) -> Floats:
        """Return the CPU of each process in the window; ``of`` says which of them each of these instances is in."""
        now = np.array([*self.after.process_cpu_ns.values()], np.float64)
        if self.before is None:
            return now
        then = np.array([self.before.process_cpu_ns.get(place, np.nan) for place in self.after.process_cpu_ns])
        scale = np.full(len(now), np.nan)
        scale[of] = self._scale[rows]
        return np.asarray((now - then) * scale, np.float64)

    def _is_same(self) -> Bools:
        """Return the instances that were where they are, and did not begin, in the window."""
        before, after = self.before, self.after
        assert before is not None
        now = {place: row for row, place in enumerate(after.places)}
        place = np.array([*(now.get(place, -2) for place in before.places), -1], np.int64)[before.place]
        same_place = place == after.place
        return np.asarray(same_place & ~(after.age_ns < after.read_ns - before.read_ns), np.bool_)

    @cached_property
    def _scale(self) -> Floats:
        """Return by instance the length of the window over that of its own; NaN if its counters are not the same."""
        assert self.before is not None
        own_ns = self.after.read_ns - self.before.read_ns
        return np.where(self._is_same() & (own_ns > 0), self.length_ns / np.where(own_ns > 0, own_ns, 1.0), np.nan)


def _forwards(change: Floats) -> Floats:
    """Return counts without those that ran backwards, which nobody measured."""
    return np.where(change < 0, np.nan, change)
