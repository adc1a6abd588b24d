"""The cells of a `Bag` column in memory: one index over (slot, value) with a count, the slot being the prefix."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.state.arrays import NO_INTEGERS, read_only, zeros
from penstock.state.budget import Account
from penstock.state.cell_kernels import add_counts
from penstock.state.key_index import KeyIndex
from penstock.state.keys import KeyCodec
from penstock.state.prefix_lists import PrefixLists
from penstock.state.store import BagCells, Slots


class MemoryBagCells(BagCells):
    """Multisets of values of one type, compared as keys are (one NaN, -0.0 is 0.0, 1.0 is 1.00)."""

    def __init__(self, type_: pa.DataType, account: Account) -> None:
        self.type = type_
        self._account = account
        self._codec = KeyCodec([type_])
        self._counts = np.zeros(0, np.int64)
        self._distinct = np.zeros(0, np.int64)
        self._lists = PrefixLists(account, ordered=False)
        self._index = KeyIndex(self._codec, self._lists, account, self._grow_items)

    def add(self, slots: Slots, values: pa.Array, counts: NDArray[np.int64] | None = None) -> None:
        """Add counts[i] (default 1, may be negative) of values[i] to the bag of slots[i]; null values count as values.

        A value whose count reaches zero is forgotten; a negative count is kept (a retraction before its insert).

        Raises:
            SchemaError: the values are not of the column's type.
            StateBudgetError: no room; then nothing was added.
        """
        if len(slots) == 0:
            return
        items, _ = self._index.locate(self._codec.encode([values]), slots, create=True)
        gone = np.empty(len(items), np.int64)
        filled = add_counts(
            read_only(items),
            read_only(slots),
            NO_INTEGERS if counts is None else read_only(counts),
            self._counts,
            self._distinct,
            gone,
        )
        self._index.remove(gone[:filled])

    def distinct(self, slots: Slots) -> NDArray[np.int64]:
        """Return how many values have a positive count in each slot's bag."""
        return self._distinct[slots]

    def items(self, slots: Slots) -> tuple[NDArray[np.int64], pa.Array, NDArray[np.int64]]:
        """Return (position in `slots`, value, count) of every item of these bags, grouped by position."""
        sizes, items = self._lists.of(slots)
        positions = np.repeat(np.arange(len(slots)), sizes)
        return positions, self._index.key_columns(items)[0], self._counts[items]

    def absorb(self, into: Slots, other: BagCells, slots: Slots) -> None:
        """Add every item of other's slots[i] to the bag of into[i]."""
        positions, values, counts = other.items(slots)
        self.add(into[positions], values, counts)

    def clear(self, slots: Slots) -> None:
        """Empty these bags, each named once."""
        items = self._lists.of(slots)[1]
        self._counts[items] = 0
        self._index.remove(items)
        self._distinct[slots] = 0

    def grow(self, slots: int) -> None:
        """Make room for slots < `slots`."""
        self._distinct = self._longer(self._distinct, slots)

    def dump(self, slots: Slots) -> pa.Array:
        """Return these bags as one array: per slot a list of (value, count)."""
        _, values, counts = self.items(slots)
        offsets = np.zeros(len(slots) + 1, np.int32)
        np.cumsum(self._lists.of(slots)[0], out=offsets[1:])
        items = pa.StructArray.from_arrays([values, pa.array(counts)], ["value", "count"])
        return pa.ListArray.from_arrays(pa.array(offsets), items)

    def load(self, slots: Slots, cells: pa.Array) -> None:
        """Write cells that `dump` returned to fresh slots."""
        sizes = np.diff(cells.offsets.to_numpy())
        values, counts = cells.flatten().flatten()
        self.add(np.repeat(slots, sizes), values, counts.to_numpy())

    def _grow_items(self, items: int) -> None:
        self._counts = self._longer(self._counts, items)

    def _longer(self, array: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        if length <= len(array):
            return array
        self._account.charge(array.itemsize * (length - len(array)))
        longer = zeros(length, np.int64)
        longer[: len(array)] = array
        return longer
