"""Timers of a process function: where they wait, and what the current call sets and cancels."""

import datetime
from heapq import heappush

import numpy as np
import pyarrow as pa

from penstock.engine.operators.process.handles import Cursor
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import PlanError
from penstock.model.process import Timers
from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import StateStore, TableSpec

Armed = dict[tuple[int, int], bool]
"""Timers of a piece's keys by (time, number of the key): set, or cancelled (and fired) ones."""

_DAY_US, _SECOND_US = 86_400_000_000, 1_000_000
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


class TimerTable:
    """Timers that wait: one per time and key."""

    def __init__(self, store: StateStore, name: str, key_types: tuple[pa.DataType, ...]) -> None:
        """Open the table ``name``."""
        self._table = store.table(TableSpec(name, key_types, prefixed=True))
        self._codec = KeyCodec(key_types)

    def first_us(self) -> int | None:
        """Return the earliest time, or None."""
        return self._table.first_prefix()

    def take_due(self, bound_us: int, most: int) -> tuple[Ints, list[pa.Array]]:
        """Take out the timers up to and with ``bound_us``: their times, ascending, and the columns of their keys.

        If they are more than ``most``, the earliest are taken, those of one time together.
        """
        first = self._table.first_prefix()
        due = np.empty(0, np.int64)
        if first is not None and first <= bound_us:
            due = self._table.slots_below(bound_us + 1) if bound_us < (1 << 63) - 1 else self._in_order()
        times_us = self._table.prefixes(due)
        if len(due) > most:
            stop = int(np.searchsorted(times_us, times_us[most - 1], side="right"))
            due, times_us = due[:stop], times_us[:stop]
        columns = self._table.key_columns(due)
        if len(due):
            self._table.remove(due)
        return times_us, columns

    def all(self) -> tuple[Ints, list[pa.Array]]:
        """Return all timers, in order of time."""
        slots = self._in_order()
        return self._table.prefixes(slots), self._table.key_columns(slots)

    def set(self, keys: KeyBatch, times_us: Ints) -> None:
        """Add timers; those that are there stay."""
        if len(keys):
            self._table.upsert(keys, times_us)

    def cancel(self, keys: KeyBatch, times_us: Ints) -> None:
        """Remove the timers that are there."""
        if len(keys):
            slots = np.unique(self._table.find(keys, times_us))
            self._table.remove(slots[slots >= 0])

    def apply(self, keys: KeyBatch, armed: Armed, after_us: int | None = None) -> None:
        """Set and cancel what a piece has, of timers later than ``after_us``; ``keys`` are the piece's."""
        for wanted, change in ((False, self.cancel), (True, self.set)):
            chosen = [
                key for key, value in armed.items() if value is wanted and (after_us is None or key[0] > after_us)
            ]
            if chosen:
                pairs = np.array(chosen, np.int64)
                change(keys.take(pairs[:, 1]), np.ascontiguousarray(pairs[:, 0]))

    def _in_order(self) -> Ints:
        slots = self._table.live()
        return slots[np.argsort(self._table.prefixes(slots), kind="stable")]


class Calendar:
    """Between datetimes as users have them, in the zone of the stream's event time, and microseconds."""

    def __init__(self, zone: str | None) -> None:
        """Convert in ``zone``; None: datetimes without zone."""
        self.zone = zone
        self._zone = None if zone is None else pa.lib.string_to_tzinfo(zone)
        self._epoch = datetime.datetime(1970, 1, 1)
        self._aware = self._epoch.replace(tzinfo=datetime.UTC)
        self._durations: dict[Duration, int] = {}

    def datetime_of(self, time_us: int) -> datetime.datetime:
        """Return a point in time; what is outside the years 1 to 9999 becomes the first or last one inside."""
        delta = datetime.timedelta(0, 0, time_us)
        try:
            return self._epoch + delta if self._zone is None else (self._aware + delta).astimezone(self._zone)
        except OverflowError:
            end = self._epoch if self._zone is None else self._aware
            return end + datetime.timedelta(0, 0, min(max(time_us, _FIRST_US), _LAST_US))

    def us_of(self, time: datetime.datetime) -> int:
        """Return microseconds since the epoch.

        Raises:
            PlanError: it is no datetime.
        """
        if not isinstance(time, datetime.datetime):
            raise PlanError(f"a timer is set for a datetime such as context.time, not {time!r}")
        delta = time - (self._epoch if time.tzinfo is None else self._aware)
        return delta.days * _DAY_US + delta.seconds * _SECOND_US + delta.microseconds

    def duration_us(self, duration: Duration) -> int:
        """Return a duration in microseconds.

        Raises:
            OptionError: it is none.
        """
        length_us = self._durations.get(duration)
        if length_us is None:
            length_us = self._durations[duration] = to_microseconds(duration, "the duration of a timer")
        return length_us


class RowTimers(Timers):
    """The timers of the current row's key. A piece begins with `begin`; what it leaves is applied to the tables."""

    def __init__(self, cursor: Cursor, calendar: Calendar, event_time: bool) -> None:
        """Work at this cursor; without event time only timers in processing time can be set."""
        self._cursor = cursor
        self._journal = cursor.journal
        self._calendar = calendar
        self._event_time = event_time
        self.begin(0, 0)

    def begin(self, bound_us: int, clock_us: int) -> None:
        """Start a piece in which timers up to ``bound_us`` fire; ``clock_us`` is processing time."""
        self.event: Armed = {}
        self.clock: Armed = {}
        self.heap: list[tuple[int, int]] = []
        self._bound_us = bound_us
        self._clock_us = clock_us

    def at(self, time: datetime.datetime) -> datetime.datetime:
        """Set a timer in event time."""
        self._arm(self._calendar.us_of(time))
        return time

    def after(self, duration: Duration) -> datetime.datetime:
        """Set a timer so long after the event time of the call."""
        time_us = self._cursor.time_us
        if time_us is None:
            raise PlanError("timers.after() counts from context.time, which is None here; use after_processing()")
        time_us += self._calendar.duration_us(duration)
        if time_us > _LAST_US:
            raise PlanError(f"a timer {duration!r} after {self._calendar.datetime_of(time_us)} is after the year 9999")
        self._arm(time_us)
        return self._calendar.datetime_of(time_us)

    def cancel(self, time: datetime.datetime) -> None:
        """Remove the timer at this event time."""
        self._change(self.event, self._calendar.us_of(time), False)

    def at_processing(self, time: datetime.datetime) -> datetime.datetime:
        """Set a timer in processing time."""
        self._change(self.clock, self._calendar.us_of(time), True)
        return time

    def after_processing(self, duration: Duration) -> datetime.datetime:
        """Set a timer so long after now."""
        time_us = self._clock_us + self._calendar.duration_us(duration)
        self._change(self.clock, time_us, True)
        return self._calendar.datetime_of(time_us)

    def cancel_processing(self, time: datetime.datetime) -> None:
        """Remove the timer at this processing time."""
        self._change(self.clock, self._calendar.us_of(time), False)

    def _arm(self, time_us: int) -> None:
        if not self._event_time:
            raise PlanError("timers need event time: declare time=... at the source, or use at_processing()")
        self._change(self.event, time_us, True)
        if time_us <= self._bound_us:
            heappush(self.heap, (time_us, self._cursor.at))

    def _change(self, armed: Armed, time_us: int, wanted: bool) -> None:
        key = (time_us, self._cursor.at)
        self._journal.append((_restore, armed, key, armed.get(key)))
        armed[key] = wanted


def _restore(armed: Armed, key: tuple[int, int], before: bool | None) -> None:
    if before is None:
        armed.pop(key, None)
    else:
        armed[key] = before
