"""Timers of a vectorised process function within one piece: those that are due, and what a call sets and cancels."""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.core.elements import END_OF_TIME_US
from penstock.engine.operators.process.types import ValueType
from penstock.model.errors import PlanError, SchemaError
from penstock.model.process import BatchTimers
from penstock.state.keys.arrays import Ints

Change = tuple[bool, bool, Ints, Ints]
"""In processing time or not, set or cancelled, the times, and the positions of their keys among the call's."""


class DueTimers:
    """Timers that are due, by key and time, each once."""

    def __init__(self, times_us: Ints, groups: Ints) -> None:
        """Hold these timers."""
        self._groups, self._times_us = _distinct(groups, times_us)

    @classmethod
    def none(cls) -> "DueTimers":
        """Return no timers."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    def __bool__(self) -> bool:
        return len(self._groups) > 0

    def first_us(self, keys: int) -> Ints:
        """Return the time of the first timer of each of ``keys`` keys; the end of time where there is none."""
        firsts = np.full(keys, END_OF_TIME_US, np.int64)
        # The last assignment holds, which in reverse order is each key's first timer.
        firsts[self._groups[::-1]] = self._times_us[::-1]
        return firsts

    def take_first(self) -> tuple[Ints, Ints]:
        """Take out the first timer of each key that has one: their times and keys."""
        first = np.append(True, np.diff(self._groups) != 0)
        taken = self._times_us[first], self._groups[first]
        self._times_us, self._groups = self._times_us[~first], self._groups[~first]
        return taken

    def add(self, times_us: Ints, groups: Ints) -> None:
        """Add timers."""
        if len(groups):
            everything = np.concatenate([self._groups, groups]), np.concatenate([self._times_us, times_us])
            self._groups, self._times_us = _distinct(*everything)

    def discard(self, times_us: Ints, groups: Ints) -> None:
        """Remove the timers that are there."""
        if len(groups) and len(self._groups):
            discarded = set(zip(groups.tolist(), times_us.tolist(), strict=True))
            pairs = zip(self._groups.tolist(), self._times_us.tolist(), strict=True)
            kept = np.array([pair not in discarded for pair in pairs], np.bool_)
            self._groups, self._times_us = self._groups[kept], self._times_us[kept]


class BatchRowTimers(BatchTimers):
    """The timers that a call sets and cancels, in order, kept until it has succeeded."""

    def __init__(self, event_time: bool) -> None:
        """Without event time only timers in processing time can be set."""
        self._event_time = event_time
        self._type = ValueType(None, pa.timestamp("us"), "the time of a timer")
        self.begin(0)

    def begin(self, keys: int) -> None:
        """Start a call with so many distinct keys."""
        self._keys = keys
        self.changes: list[Change] = []

    def at(self, times: Any) -> None:
        """Set timers in event time."""
        if not self._event_time:
            raise PlanError("timers need event time: declare time=... at the source, or use at_processing()")
        self._change(False, True, times)

    def cancel(self, times: Any) -> None:
        """Remove timers in event time."""
        self._change(False, False, times)

    def at_processing(self, times: Any) -> None:
        """Set timers in processing time."""
        self._change(True, True, times)

    def cancel_processing(self, times: Any) -> None:
        """Remove timers in processing time."""
        self._change(True, False, times)

    def _change(self, processing: bool, wanted: bool, times: Any) -> None:
        column = times if isinstance(times, pa.Array) else pa.array(times)
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))
            column = column.view(pa.timestamp(column.type.unit))
        column = self._type.cast(column)
        if len(column) != self._keys:
            raise SchemaError(f"timers need a time (or null) for each of context.keys: {self._keys}, not {len(column)}")
        positions = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        times_us = column.drop_null().view(pa.int64()).to_numpy()
        self.changes.append((processing, wanted, times_us, positions))


def _distinct(groups: Ints, times_us: Ints) -> tuple[Ints, Ints]:
    """Return timers in order of key and time, each once."""
    order = np.lexsort((times_us, groups))
    groups, times_us = groups[order], times_us[order]
    new = np.append(True, (np.diff(groups) != 0) | (np.diff(times_us) != 0))[: len(groups)]
    return groups[new], times_us[new]
