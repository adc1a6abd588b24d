"""The cells of a `Text` column in memory: byte strings in an arena, (start, length) by slot."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.errors import SchemaError
from penstock.state.keys.arrays import read_only
from penstock.state.keys.batch_keys import gather_bytes
from penstock.state.keys.key_columns import ByteColumn, is_bytes, read_column, write_column
from penstock.state.store import Slots, TextCells
from penstock.state.tables.budget import Account
from penstock.state.tables.byte_arena import ByteArena
from penstock.state.tables.cell_kernels import store_cells

_NULL = -1


class MemoryTextCells(TextCells):
    """Cells of a string or binary type; null where nothing was set."""

    def __init__(self, type_: pa.DataType, account: Account) -> None:
        if not is_bytes(type_):
            raise SchemaError(f"a text column cannot hold {type_}: it is for strings and binaries.")
        self.type = type_
        self.changes = 0
        """The number of writes to cells."""
        self._account = account
        self._arena = ByteArena(account)
        self._starts = np.zeros(0, np.int64)
        self._lengths = np.zeros(0, np.int64)

    def get(self, slots: Slots) -> pa.Array:
        """Return the values of these slots (null where none was set)."""
        lengths = self._lengths[slots]
        nulls = lengths == _NULL
        data, offsets = gather_bytes(self._arena.data, self._starts[slots], np.maximum(lengths, 0))
        return write_column(ByteColumn(data, offsets, nulls), self.type)

    def set(self, slots: Slots, values: pa.Array) -> None:
        """Store values[i] in slots[i]; a slot that repeats keeps its last value.

        Raises:
            SchemaError: the values are not of the column's type.
            StateBudgetError: no room; then nothing was stored.
        """
        if len(slots) == 0:
            return
        self.changes += 1
        column = read_column(values, self.type)
        assert isinstance(column, ByteColumn)
        self._make_room(self._needed_bytes(slots, np.diff(column.offsets)))
        nulls = np.zeros(0, np.bool_) if column.nulls is None else column.nulls
        store_cells(
            read_only(slots),
            read_only(column.data),
            read_only(column.offsets),
            read_only(nulls),
            self._arena.data,
            self._arena.usage,
            self._starts,
            self._lengths,
        )
        if self._arena.worth_packing:
            self._pack(0)

    def clear(self, slots: Slots) -> None:
        """Make these cells, each named once, null again."""
        self.changes += 1
        self._arena.discard(int(np.maximum(self._lengths[slots], 0).sum()))
        self._lengths[slots] = _NULL
        if self._arena.worth_packing:
            self._pack(0)

    def grow(self, slots: int) -> None:
        """Make room for slots < `slots`."""
        old = len(self._starts)
        self._starts, self._lengths = self._account.longer(slots, self._starts, self._lengths)
        self._lengths[old:] = _NULL

    def dump(self, slots: Slots) -> pa.Array:
        """Return these cells as one array."""
        return self.get(slots)

    def load(self, slots: Slots, cells: pa.Array) -> None:
        """Write cells that `dump` returned to fresh slots."""
        self.set(slots, cells)

    def _needed_bytes(self, slots: Slots, lengths: NDArray[np.int64]) -> int:
        """Return what may have to be stored behind the used bytes; values that are not longer stay where they are."""
        before = self._lengths[slots]
        if (lengths < before).any():
            # One of them may be followed by a longer one for the same slot.
            return int(lengths.sum())
        return int(lengths.sum(where=lengths > before))

    def _make_room(self, extra_bytes: int) -> None:
        if self._arena.room >= extra_bytes:
            return
        if self._arena.worth_packing:
            self._pack(extra_bytes)
        else:
            self._arena.reserve(extra_bytes)

    def _pack(self, extra_bytes: int) -> None:
        filled: NDArray[np.int64] = np.flatnonzero(self._lengths > 0)
        self._starts[filled] = self._arena.pack(self._starts[filled], self._lengths[filled], extra_bytes)
