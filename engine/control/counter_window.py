"""The time between two readings of a job: what was counted in it, and which CPU each instance took. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.control.reading import LogReadings, Reading, TaskLayout
from penstock.model.columns import Bools, Floats
from penstock.model.ids import OperatorId


@dataclass(frozen=True, slots=True)
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
        scale = self._scale()
        by_row = scale[:, np.newaxis] if now.ndim == 2 else scale
        return _forwards((now - counts(self.before)) * by_row)

    def by_edge(self, counts: Callable[[Reading], Sequence[Floats]], ends: Sequence[OperatorId]) -> Sequence[Floats]:
        """Return rows of each edge in the window by the instances at one of its ends, NaN of those that began in it."""
        if self.before is None:
            return counts(self.after)
        scale = self._scale()
        rows = zip(ends, counts(self.after), counts(self.before), strict=True)
        return [
            _forwards((now - then) * scale[self.layout.first[self.layout.row[end]] :][: len(now)])
            for end, now, then in rows
        ]

    def by_partition(self, counts: Callable[[LogReadings], Floats]) -> Floats:
        """Return what was counted of each partition in the window, NaN of those that were not read all the while."""
        after = self.after.logs
        if self.before is None:
            return np.full(len(after.name), np.nan)
        before = self.before.logs
        rows = {key: row for row, key in enumerate(zip(before.instance.tolist(), before.name, strict=True))}
        keys = zip(after.instance.tolist(), after.name, strict=True)
        then = np.array([rows.get(key, -1) for key in keys], np.int64)
        earlier = np.append(counts(before), np.nan)[then]
        return _forwards((counts(after) - earlier) * self._scale()[after.instance])

    def cpu_ns(self) -> Floats:
        """Return the CPU of each instance: that of its steps, and its share of what its process took beside them.

        What a process did for its instances in other threads, such as fetching, compacting and uploading, and what its
        loop took, is divided as their own CPU is.
        """
        own = self.since(lambda reading: reading.cpu_ns)
        cpu = own.copy()
        places = np.array(self.after.places, object)
        for place, now in self.after.process_cpu_ns.items():
            rows = np.flatnonzero((places == place) & ~np.isnan(own))
            whole = self._of_process(place, now, rows)
            rest = whole - own[rows].sum()
            if len(rows) and rest > 0:
                shares = own[rows] / own[rows].sum() if own[rows].sum() > 0 else np.full(len(rows), 1.0 / len(rows))
                cpu[rows] += rest * shares
        return cpu

    def _of_process(self, place: str, now: float, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        if self.before is None:
            return now
        then = self.before.process_cpu_ns.get(place, np.nan)
        return float((now - then) * self._scale()[rows[0]]) if len(rows) else np.nan

    def _is_same(self) -> Bools:
        """Return the instances that were where they are, and did not begin, in the window."""
        before, after = self.before, self.after
        assert before is not None
        same_place = np.array(before.places, object) == np.array(after.places, object)
        return np.asarray(same_place & ~(after.age_ns < after.read_ns - before.read_ns), np.bool_)

    def _scale(self) -> Floats:
        """Return by instance the length of the window over that of its own; NaN if its counters are not the same."""
        assert self.before is not None
        own_ns = self.after.read_ns - self.before.read_ns
        return np.where(self._is_same() & (own_ns > 0), self.length_ns / np.where(own_ns > 0, own_ns, 1.0), np.nan)


def _forwards(change: Floats) -> Floats:
    """Return counts without those that ran backwards, which nobody measured."""
    return np.where(change < 0, np.nan, change)
