"""List and map state of a process function: numbered entries per key, so that an append never rewrites the others.

A header per key knows the numbers in use; an entry is found by its number (as the prefix) and key.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.operators.process.cells import CellColumns, cells_of
from penstock.engine.operators.process.expiry import EXPIRY_COLUMNS, Expiry
from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import INTEGER, ColumnSpec, Slots, StateStore, TableSpec


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of a batch of keys, key by key in order of their numbers.

    ``owners`` is the position of each one's key in the batch; ``counts`` says how many each key has.
    """

    owners: Ints
    numbers: Ints
    slots: Slots
    counts: Ints


class EntryState:
    """The entries of one state of an operator instance."""

    def __init__(
        self,
        store: StateStore,
        name: str,
        key_types: tuple[pa.DataType, ...],
        types: tuple[pa.DataType, ...],
        ttl_us: int | None,
    ) -> None:
        """Open the tables of the state; ``types`` are those of the columns of an entry."""
        self.ttl_us = ttl_us
        self._parts: list[CellColumns] = [
            cells_of(f"part{index}", type_, f"state {name} entries") for index, type_ in enumerate(types)
        ]
        header: dict[str, ColumnSpec] = {"first": INTEGER, "end": INTEGER}
        columns: dict[str, ColumnSpec] = {}
        for part in self._parts:
            columns.update(part.columns())
        self._expiry: Expiry | None = None
        if ttl_us is not None:
            header.update(EXPIRY_COLUMNS)
            columns["written"] = INTEGER
            self._expiry = Expiry(store, f"state {name}", key_types, ttl_us)
        self.table = store.table(TableSpec(f"state {name}", key_types, header))
        self.entries = store.table(TableSpec(f"state {name} entries", key_types, columns, prefixed=True))
        for part in self._parts:
            part.bind(store, self.entries)

    def find(self, keys: KeyBatch) -> Entries:
        """Return all entries of distinct keys, expired ones too."""
        headers = self.table.find(keys)
        present = np.flatnonzero(headers >= 0)
        first, end = self.table.array("first")[headers[present]], self.table.array("end")[headers[present]]
        spans = end - first
        owners = np.repeat(present, spans)
        starts = np.cumsum(spans) - spans
        numbers = np.arange(len(owners)) - np.repeat(starts - first, spans)
        slots = self.entries.find(keys.take(owners), numbers) if len(owners) else np.empty(0, np.int64)
        there = slots >= 0
        owners, numbers, slots = owners[there], numbers[there], slots[there]
        return Entries(owners, numbers, slots, np.bincount(owners, minlength=len(keys)))

    def read(self, part: int, slots: Slots) -> pa.Array:
        """Return one column of entries."""
        return self._parts[part].read(slots)

    def written_us(self, slots: Slots) -> Ints:
        """Return when entries were written (state with a time to live only)."""
        written: Ints = self.entries.array("written")[slots]
        return written

    def append(self, keys: KeyBatch, counts: Ints, columns: list[pa.Array], written_us: Ints | None) -> None:
        """Give each of these distinct keys its next counts[i] (> 0) entries, whose columns come key by key."""
        if not len(keys):
            return
        headers = self.table.upsert(keys).slots
        end = self.table.array("end")
        starts = np.cumsum(counts) - counts
        numbers = np.arange(int(counts.sum())) + np.repeat(end[headers] - starts, counts)
        owners = keys.take(np.repeat(np.arange(len(keys)), counts))
        self._write(self.entries.upsert(owners, numbers).slots, columns, written_us, owners)
        end[headers] += counts
        if self._expiry is not None and self.ttl_us is not None and written_us is not None:
            oldest = np.minimum.reduceat(written_us, starts)
            self._expiry.enlist(keys, self.table, headers, oldest + self.ttl_us)

    def rewrite(self, keys: KeyBatch, numbers: Ints, columns: list[pa.Array], written_us: Ints | None) -> None:
        """Replace entries that are there; keys[i] is the key of the entry numbers[i]."""
        if len(keys):
            self._write(self.entries.find(keys, numbers), columns, written_us, keys)

    def remove(self, keys: KeyBatch, numbers: Ints) -> None:
        """Forget entries that are there, their numbers for good."""
        if len(keys):
            self._forget(self.entries.find(keys, numbers))

    def clear(self, keys: KeyBatch) -> None:
        """Forget distinct keys and all their entries."""
        if len(keys):
            self._forget(self.find(keys).slots)
            headers = self.table.find(keys)
            self.table.remove(headers[headers >= 0])

    def due_us(self) -> int | None:
        """Return when `sweep` may find something that has expired; None: never."""
        return None if self._expiry is None else self._expiry.first_us()

    def sweep(self, now_us: int) -> None:
        """Forget what has expired."""
        if self._expiry is None or self.ttl_us is None:
            return
        for keys, headers in self._expiry.expire(now_us, self.table):
            entries = self.find(keys)
            due_us = self.written_us(entries.slots) + self.ttl_us
            alive = due_us > now_us
            self._forget(entries.slots[~alive])
            owners, numbers = entries.owners[alive], entries.numbers[alive]
            kept, starts = np.unique(owners, return_index=True)
            if len(kept):
                # Numbers ascend within a key, so its first entry that lives has the least.
                self.table.array("first")[headers[kept]] = numbers[starts]
                earliest = np.minimum.reduceat(due_us[alive], starts)
                self._expiry.enlist(keys.take(kept), self.table, headers[kept], earliest)
            empty = np.ones(len(keys), np.bool_)
            empty[kept] = False
            self.table.remove(headers[empty])

    def _write(self, slots: Slots, columns: list[pa.Array], written_us: Ints | None, keys: KeyBatch) -> None:
        for part, values in zip(self._parts, columns, strict=True):
            part.write(slots, values, keys)
        if written_us is not None and self.ttl_us is not None:
            self.entries.array("written")[slots] = written_us

    def _forget(self, slots: Slots) -> None:
        if len(slots):
            for part in self._parts:
                part.clear(slots)
            self.entries.remove(slots)
