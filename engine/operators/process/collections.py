"""List state in the hands of a row-wise process function, and what maps (`maps`) have in common with it.

What only grows is not read; what is read is fetched for more and more of the piece's keys at a time.
"""

from collections.abc import Iterable
from operator import setitem
from typing import Any

import numpy as np

from penstock.engine.operators.process.entry_state import EntryState
from penstock.engine.operators.process.handles import OUTSIDE, Cursor, StateHandle
from penstock.engine.operators.process.types import ValueType
from penstock.model.process_states import ListState, State
from penstock.state.keys.batch_keys import KeyBatch


class Collection(State, StateHandle):
    """The base of lists and maps: entries loaded by key, and a time to live for each."""

    _state: EntryState
    _cursor: Cursor
    _keys: KeyBatch
    _loaded: list[Any]

    def _attach(self, declared: State, state: EntryState, cursor: Cursor) -> None:
        self.declared, self.ttl_us, self.ttl_clock = declared.declared, declared.ttl_us, declared.ttl_clock
        self._state = state
        self._cursor = cursor
        self._loaded = OUTSIDE

    def begin(self, keys: KeyBatch) -> None:
        """Number the keys; nothing is fetched yet."""
        self._keys = keys
        self._loaded = [None] * len(keys)
        self._at_once = 1
        self._cleared = bytearray(len(keys))
        self._touched: set[int] = set()

    def _detach(self) -> Any:
        """Return what is loaded; there is no key any more."""
        loaded, self._loaded = self._loaded, OUTSIDE
        return loaded

    def _load(self, at: int) -> Any:
        """Fetch the entries of a key, and of those behind it: more with every time."""
        wanted: list[int] = []
        while at < len(self._loaded) and len(wanted) < self._at_once:
            if self._loaded[at] is None:
                wanted.append(at)
            at += 1
        self._at_once *= 2
        entries = self._state.find(self._keys.take(np.array(wanted, np.int64)))
        written = [] if self.ttl_us is None else self._state.written_us(entries.slots).tolist()
        self._keep(wanted, entries.counts.tolist(), entries.slots, written, entries.numbers.tolist())
        return self._loaded[wanted[0]]

    def _keep(self, wanted: list[int], counts: list[int], slots: Any, written: list[int], numbers: list[int]) -> None:
        raise NotImplementedError

    def _now_us(self) -> int:
        return self._cursor.now_us if self.ttl_clock == "event" else self._cursor.clock_us

    def _alive(self, written_us: int) -> bool:
        return self.ttl_us is None or written_us + self.ttl_us > self._now_us()


class RowList(Collection, ListState[Any]):
    """Lists. ``_added`` holds what was appended in this piece, like what was loaded.

    Both are values, with a time to live pairs of when and what.
    """

    def __init__(self, declared: ListState[Any], state: EntryState, type_: ValueType, cursor: Cursor) -> None:
        """Work on this state."""
        self._attach(declared, state, cursor)
        self._type = type_
        self._added: list[list[Any]] = OUTSIDE

    def begin(self, keys: KeyBatch) -> None:
        """Number the keys."""
        super().begin(keys)
        self._added = [[] for _ in range(len(keys))]

    def end(self) -> None:
        """Write back what was cleared and appended."""
        added, self._added, self._loaded = self._added, OUTSIDE, OUTSIDE
        touched = sorted(self._touched)
        cleared = [at for at in touched if self._cleared[at]]
        self._state.clear(self._keys.take(np.array(cleared, np.int64)))
        grown = [at for at in touched if added[at]]
        if not grown:
            return
        values = [entry for at in grown for entry in added[at]]
        written = None
        if self.ttl_us is not None:
            written = np.array([us for us, _ in values], np.int64)
            values = [value for _, value in values]
        counts = np.array([len(added[at]) for at in grown], np.int64)
        keys = self._keys.take(np.array(grown, np.int64))
        self._state.append(keys, counts, [self._type.to_array(values)], written)

    def append(self, value: Any) -> None:
        """Add a value at the end."""
        if type(value) is not self._type.exact:
            value = self._type.admit(value)
        at = self._cursor.at
        entries = self._added[at]
        entries.append(value if self.ttl_us is None else (self._now_us(), value))
        self._cursor.journal.append((list.pop, entries))
        self._touched.add(at)

    def extend(self, values: Iterable[Any]) -> None:
        """Add values at the end."""
        more = self._entries(values)
        at = self._cursor.at
        entries = self._added[at]
        self._cursor.journal.append((_truncate, entries, len(entries)))
        entries += more
        self._touched.add(at)

    def get(self) -> list[Any]:
        """Return the values, oldest first."""
        at = self._cursor.at
        entries = self._added[at]
        if self._cleared[at]:
            entries = entries.copy()
        else:
            loaded = self._loaded[at]
            entries = (self._load(at) if loaded is None else loaded) + entries
        if self.ttl_us is not None:
            entries = [value for us, value in entries if self._alive(us)]
        return entries if self._type.hand is None else [self._type.shown(value) for value in entries]

    def set(self, values: Iterable[Any]) -> None:
        """Replace all values."""
        self._replace(self._entries(values))

    def clear(self) -> None:
        """Forget the key's list."""
        self._replace([])

    def _replace(self, entries: list[Any]) -> None:
        at = self._cursor.at
        journal = self._cursor.journal
        journal.append((setitem, self._added, at, self._added[at]))
        journal.append((setitem, self._cleared, at, self._cleared[at]))
        self._added[at] = entries
        self._cleared[at] = 1
        self._touched.add(at)

    def _entries(self, values: Iterable[Any]) -> list[Any]:
        admit = self._type.admit
        if self.ttl_us is None:
            return [admit(value) for value in values]
        now_us = self._now_us()
        return [(now_us, admit(value)) for value in values]

    def _keep(self, wanted: list[int], counts: list[int], slots: Any, written: list[int], numbers: list[int]) -> None:
        entries = self._type.to_python(self._state.read(0, slots))
        if self.ttl_us is not None:
            entries = list(zip(written, entries, strict=True))
        start = 0
        for at, count in zip(wanted, counts, strict=True):
            self._loaded[at] = entries[start : start + count]
            start += count


def _truncate(entries: list[Any], length: int) -> None:
    del entries[length:]
