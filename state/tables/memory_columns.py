"""`FixedColumn` and `ObjectColumn` columns in memory; text, bags and vectors have files of their own."""

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.state.store import BagColumn, ColumnSpec, FixedColumn, ObjectColumn, Slots, TextColumn, VectorColumn
from penstock.state.tables.bag_cells import MemoryBagCells
from penstock.state.tables.budget import Account
from penstock.state.tables.text_cells import MemoryTextCells
from penstock.state.tables.vector_cells import MemoryVectorCells


class Column(Protocol):
    """The contract of a table's columns."""

    def grow(self, slots: int) -> None:
        """Make room for slots < `slots`, charging for it; do nothing if there is."""

    def clear(self, slots: Slots) -> None:
        """Reset these cells, each named once, to the state of a fresh slot."""

    def dump(self, slots: Slots) -> pa.Array:
        """Return these cells as one array."""

    def load(self, slots: Slots, cells: pa.Array) -> None:
        """Write cells that `dump` returned to fresh slots."""


def new_column(spec: ColumnSpec, account: Account) -> Column:
    """Return an empty column of this kind."""
    match spec:
        case FixedColumn(dtype):
            return MemoryFixedColumn(dtype, account)
        case TextColumn(type_):
            return MemoryTextCells(type_, account)
        case BagColumn(type_, lanes, counted):
            return MemoryBagCells(type_, account, lanes, counted)
        case VectorColumn(width):
            return MemoryVectorCells(width, account)
        case ObjectColumn():
            return MemoryObjectColumn(spec, account)


class MemoryFixedColumn:
    """One array by slot, zero where nothing was written."""

    def __init__(self, dtype: np.dtype[Any], account: Account) -> None:
        self.array: NDArray[Any] = np.zeros(0, dtype)
        self._account = account

    def grow(self, slots: int) -> None:
        """Make room for slots < `slots`."""
        (self.array,) = self._account.longer(slots, self.array)

    def clear(self, slots: Slots) -> None:
        """Make these cells zero."""
        self.array[slots] = 0

    def dump(self, slots: Slots) -> pa.Array:
        """Return these cells as one array."""
        return pa.array(self.array[slots])

    def view(self, first: int, count: int) -> pa.Array:
        """Return as `dump` so many cells from a slot on, which may change with the column."""
        return pa.array(self.array[first : first + count])

    def load(self, slots: Slots, cells: pa.Array) -> None:
        """Write cells that `dump` returned to fresh slots."""
        self.array[slots] = cells.to_numpy(zero_copy_only=False)


class MemoryObjectColumn:
    """One list by slot, None where nothing was stored. The objects' bytes are known only after `measure`."""

    def __init__(self, spec: ObjectColumn, account: Account) -> None:
        self.objects: list[Any] = []
        self._spec = spec
        self._account = account
        self._measured_bytes = 0

    def measure(self) -> None:
        """Charge the present bytes of all objects.

        Raises:
            StateBudgetError: they take more than the budget has left.
        """
        size = self._spec.size
        held_bytes = sum(size(item) for item in self.objects if item is not None)
        self._account.charge(held_bytes - self._measured_bytes)
        self._measured_bytes = held_bytes

    def grow(self, slots: int) -> None:
        """Make room for slots < `slots`."""
        extra = slots - len(self.objects)
        if extra > 0:
            self._account.charge(8 * extra)
            self.objects.extend([None] * extra)

    def clear(self, slots: Slots) -> None:
        """Remove these objects."""
        for slot in slots.tolist():
            self.objects[slot] = None

    def dump(self, slots: Slots) -> pa.Array:
        """Return these objects, encoded, as one binary array."""
        objects = [self.objects[slot] for slot in slots.tolist()]
        encoded = [None if item is None else self._spec.encode(item) for item in objects]
        return pa.array(encoded, pa.binary())

    def load(self, slots: Slots, cells: pa.Array) -> None:
        """Write cells that `dump` returned to fresh slots."""
        for slot, item in zip(slots.tolist(), cells.to_pylist(), strict=True):
            self.objects[slot] = None if item is None else self._spec.decode(item)
