"""The open sessions of one operator instance: which rows belong together, which sessions merge, which are over.

Two tables: a key's newest session, and the sessions, linked from newest to oldest (`kernels.sessions`). A session
[first, last + gap) is over when W > last + gap + lateness, strictly: a row at exactly last + gap still joins.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.kernels.sessions import (
    SessionLinks,
    assign_sessions,
    link_sessions,
    settle_rows,
    split_due,
    survivors,
    unlink_sessions,
)
from penstock.engine.operators.key_lookup import KeyLookup
from penstock.model.errors import BugError
from penstock.state.keys.arrays import Ints, read_only
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import INTEGER, ColumnSpec, FixedColumn, KeyedTable, Slots, StateStore, TableSpec

_SESSION = FixedColumn(np.dtype(np.int64), refers="sessions")
_LINKS: dict[str, ColumnSpec] = {
    "first": INTEGER,
    "last": INTEGER,
    "older": _SESSION,
    "newer": _SESSION,
    "owner": FixedColumn(np.dtype(np.int64), refers="session_keys"),
}
_NEWEST: dict[str, ColumnSpec] = {"newest": FixedColumn(np.dtype(np.int64), refers="sessions", base=1)}
_NEAR_PARTS = 8
_NONE: Slots = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class SessionAssignment:
    """The sessions of a batch's rows: ``slots`` (-1: late), of which ``fresh`` are new; ``late`` rows there are.

    Sessions ``absorbed[i]`` were merged into ``into[i]``; absorb them, then `SessionState.remove` them.
    """

    slots: Slots
    fresh: Slots
    into: Slots
    absorbed: Slots
    late: int


class SessionState:
    """Sessions by key, in slots of `table`."""

    def __init__(
        self,
        store: StateStore,
        key_types: tuple[pa.DataType, ...],
        columns: dict[str, ColumnSpec],
        gap_us: int,
        lateness_us: int,
        placed_by: tuple[int, ...] | None = None,
    ) -> None:
        """Open the tables, both with ``placed_by``; ``columns`` are kept per session besides its links."""
        self._gap_us = gap_us
        self._lateness_us = lateness_us
        self._keys = store.table(TableSpec("session_keys", key_types, _NEWEST, placed_by=placed_by))
        self._lookup = KeyLookup(self._keys)
        # The prefix is the stretch of one gap in which the session began; a key cannot begin two in one stretch.
        spec = TableSpec("sessions", key_types, _LINKS | columns, prefixed=True, placed_by=placed_by)
        self.table: KeyedTable = store.table(spec)
        # Kept, because fresh memory costs more than what is written to it.
        self._created = np.empty((6, 0), np.int64)
        # The open sessions whose last row is, or was, before a time.
        self._near: list[Slots] = []
        self._near_before_us = START_OF_TIME_US
        if (live := self.table.live()).size:
            self._near_before_us = int(self.table.array("last")[live].min())

    def settled_before_us(self, watermark_us: int) -> int:
        """Return T: sessions whose last row is before T are over, and rows before T begin no session."""
        return max(START_OF_TIME_US, watermark_us - self._gap_us - self._lateness_us)

    def bounds_us(self, slots: Slots) -> tuple[Ints, Ints]:
        """Return where sessions begin and end."""
        return self.table.array("first")[slots], self.table.array("last")[slots] + self._gap_us

    def assign(self, keys: KeyBatch, times_us: Ints, settled_before_us: int) -> SessionAssignment:
        """Find or begin every row's session, in order of arrival."""
        rows = len(times_us)
        located = self._lookup.upsert(keys)
        links = self._links()
        base = len(links.first)
        if self._created.shape[1] < rows:
            self._created = np.empty((6, rows), np.int64)
        created = self._created
        sessions, merged = np.empty(rows, np.int64), np.empty(rows, np.int64)
        times = read_only(times_us)
        owners = read_only(located.slots)
        news, merges, late = assign_sessions(
            owners, times, self._gap_us, settled_before_us, links, created, sessions, merged
        )
        fresh, absorbed = _NONE, merged[:merges]
        into = absorbed.copy()
        if news or merges:
            slot_of_new = np.empty(news, np.int64)
            fresh = self._begin(keys, times, created, base, slot_of_new)
            owner = self.table.array("owner")
            settle_rows(base, created, owner, slot_of_new, sessions)
            settle_rows(base, created, owner, slot_of_new, into)
        if late:
            idle = located.fresh[links.newest[located.fresh] == 0]
            self._keys.remove(idle)
        return SessionAssignment(sessions, fresh, into, absorbed, late)

    def over(self, settled_before_us: int) -> Slots:
        """Return the sessions that are over, by their end; `remove` them before the next call."""
        last = self.table.array("last")
        if settled_before_us > self._near_before_us:
            # A session is looked at again only when it may be over: once per part of a gap, if not in `near`.
            candidates = self.table.live()
            part_us = self._gap_us // _NEAR_PARTS + 1
            self._near_before_us = min(settled_before_us + part_us, END_OF_TIME_US)
        else:
            candidates = np.concatenate([_NONE, *self._near])
        due, near = np.empty(len(candidates), np.int64), np.empty(len(candidates), np.int64)
        dues, nears = split_due(read_only(candidates), last, settled_before_us, self._near_before_us, due, near)
        self._near = [near[:nears]]
        due = due[:dues]
        return due[np.argsort(last[due], kind="stable")]

    def next_us(self) -> int | None:
        """Return a watermark before which no session is over, None when there is none.

        It is the least one, or at most a part of the gap before that if `over` was called with an earlier one.
        """
        if self.table.first_prefix() is None:
            return None
        near = np.concatenate([_NONE, *self._near])
        last_us = self._near_before_us
        if len(near):
            last_us = min(last_us, int(self.table.array("last")[near].min()))
        return last_us + self._gap_us + self._lateness_us + 1

    def end(self, slots: Slots) -> None:
        """Forget sessions that are over."""
        if not len(slots):
            return
        emptied = np.empty(len(slots), np.int64)
        count = unlink_sessions(read_only(slots), self._links(), emptied)
        self._keys.remove(emptied[:count])
        self.table.remove(slots)

    def forget_merged(self, slots: Slots) -> None:
        """Forget sessions that were merged into others."""
        forgotten = np.zeros(len(self.table.array("last")), np.bool_)
        forgotten[slots] = True
        self._near = [part[~forgotten[part]] for part in self._near]
        self.table.remove(slots)

    def _begin(self, keys: KeyBatch, times_us: Ints, created: Ints, base: int, slot_of_new: Ints) -> Slots:
        """Give the created sessions slots and link them."""
        news = len(slot_of_new)
        rows = np.empty(news, np.int64)
        rows = rows[: survivors(created, news, rows)]
        located = self.table.upsert(keys.take(rows), times_us[rows] // self._gap_us)
        if len(located.fresh) != len(rows):
            raise BugError("a session began where its key has one already; please report it")
        slots = read_only(located.slots)
        link_sessions(base, created, news, slots, self._links(), slot_of_new)
        if (near := slots[self.table.array("last")[slots] < self._near_before_us]).size:
            self._near.append(near)
        return located.fresh

    def _links(self) -> SessionLinks:
        newest, *names = SessionLinks._fields
        return SessionLinks(self._keys.array(newest), *map(self.table.array, names))
