"""The expiry of state with a time to live, so that entries nobody reads go as well.

A key is listed under the earliest time at which something of it may have expired; writing again does not move it.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import INTEGER, KeyedTable, Slots, StateStore, TableSpec

LISTED = "listed"
EXPIRY_COLUMNS = {LISTED: INTEGER}
"""What `Expiry` keeps in the table of the state: the time a key is listed under, less `_FIRST_US`; 0: it is not."""

_FIRST_US = -(1 << 62)
_STEPS = 8
_PIECE = 65_536


class Expiry:
    """The keys of one state by the time they are due, in steps of an eighth of the time to live."""

    def __init__(self, store: StateStore, name: str, key_types: tuple[pa.DataType, ...], ttl_us: int) -> None:
        """Open the table of due times of the state ``name``."""
        self._codec = KeyCodec(key_types)
        self._due = store.table(TableSpec(f"{name} expiry", key_types, prefixed=True))
        self._step_us = max(1, ttl_us // _STEPS)

    def first_us(self) -> int | None:
        """Return the least time at which `expire` does something; None: nothing is listed."""
        return self._due.first_prefix()

    def enlist(self, keys: KeyBatch, table: KeyedTable, slots: Slots, due_us: Ints) -> None:
        """List the keys in these slots of their table, each once, that are not listed yet."""
        listed = table.array(LISTED)
        new = np.flatnonzero(listed[slots] == 0)
        if len(new):
            times_us = -(-due_us[new] // self._step_us) * self._step_us
            self._due.upsert(keys.take(new), times_us)
            listed[slots[new]] = times_us - _FIRST_US

    def expire(self, now_us: int, table: KeyedTable) -> Iterator[tuple[KeyBatch, Slots]]:
        """Yield the keys that are due and their slots, which are no longer listed."""
        now_us = min(now_us, -_FIRST_US)
        first = self._due.first_prefix()
        if first is None or first > now_us:
            return
        due = self._due.slots_below(now_us + 1)
        for start in range(0, len(due), _PIECE):
            entries = due[start : start + _PIECE]
            keys = self._codec.encode(self._due.key_columns(entries), len(entries))
            times_us = self._due.prefixes(entries)
            self._due.remove(entries)
            slots = table.find(keys)
            present = np.flatnonzero(slots >= 0)
            # A key that was cleared and came back is listed elsewhere too, under the time its table knows.
            current = present[table.array(LISTED)[slots[present]] == times_us[present] - _FIRST_US]
            if len(current):
                table.array(LISTED)[slots[current]] = 0
                yield keys.take(current), slots[current]
