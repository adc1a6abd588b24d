"""Value and reducing state of a process function: one cell per key, read and written for whole batches of keys."""

import numpy as np
import pyarrow as pa

from penstock.engine.operators.process.cells import cells_of
from penstock.engine.operators.process.expiry import EXPIRY_COLUMNS, Expiry
from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import INTEGER, ColumnSpec, Slots, StateStore, TableSpec

_WRITTEN = "written"


class PointState:
    """The values of one state of an operator instance; a key without one has no slot."""

    def __init__(
        self, store: StateStore, name: str, key_types: tuple[pa.DataType, ...], type_: pa.DataType, ttl_us: int | None
    ) -> None:
        """Open the table of the state."""
        self._cells = cells_of("value", type_, f"state {name}")
        columns: dict[str, ColumnSpec] = dict(self._cells.columns())
        self.ttl_us = ttl_us
        self._expiry: Expiry | None = None
        if ttl_us is not None:
            columns |= {_WRITTEN: INTEGER, **EXPIRY_COLUMNS}
            self._expiry = Expiry(store, f"state {name}", key_types, ttl_us)
        self.table = store.table(TableSpec(f"state {name}", key_types, columns))
        self._cells.bind(store, self.table)

    def find(self, keys: KeyBatch) -> Slots:
        """Return the slots of keys, -1 where there is no value."""
        return self.table.find(keys)

    def read(self, slots: Slots) -> pa.Array:
        """Return the values in slots."""
        return self._cells.read(slots)

    def written_us(self, slots: Slots) -> Ints:
        """Return when slots were last written (state with a time to live only)."""
        written: Ints = self.table.array(_WRITTEN)[slots]
        return written

    def alive(self, slots: Slots, now_us: int) -> Slots:
        """Return the slots that have not expired."""
        return slots if self.ttl_us is None else slots[self.written_us(slots) + self.ttl_us > now_us]

    def write(self, keys: KeyBatch, values: pa.Array, written_us: Ints | None) -> None:
        """Replace the values of distinct keys; ``written_us`` is needed with a time to live."""
        if not len(keys):
            return
        slots = self.table.upsert(keys).slots
        self._cells.write(slots, values, keys)
        if self._expiry is not None and self.ttl_us is not None and written_us is not None:
            self.table.array(_WRITTEN)[slots] = written_us
            self._expiry.enlist(keys, self.table, slots, written_us + self.ttl_us)

    def remove(self, keys: KeyBatch) -> None:
        """Forget the values of distinct keys."""
        slots = self.table.find(keys)
        self._forget(slots[slots >= 0])

    def due_us(self) -> int | None:
        """Return when `sweep` may find something that has expired; None: never."""
        return None if self._expiry is None else self._expiry.first_us()

    def sweep(self, now_us: int) -> None:
        """Forget what has expired."""
        if self._expiry is None or self.ttl_us is None:
            return
        for keys, slots in self._expiry.expire(now_us, self.table):
            due_us = self.written_us(slots) + self.ttl_us
            alive = np.flatnonzero(due_us > now_us)
            self._expiry.enlist(keys.take(alive), self.table, slots[alive], due_us[alive])
            self._forget(slots[due_us <= now_us])

    def _forget(self, slots: Slots) -> None:
        if len(slots):
            self._cells.clear(slots)
            self.table.remove(slots)
