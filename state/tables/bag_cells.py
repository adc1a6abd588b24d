"""The cells of a `BagColumn` in memory: one index over (slot, value) with a count, the slot being the prefix."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.errors import BugError
from penstock.state.keys.arrays import NO_INTEGERS, read_only
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import BagCells, Slots
from penstock.state.tables.budget import Account
from penstock.state.tables.cell_kernels import add_counts, add_marks
from penstock.state.tables.grouping import KeyGrouper
from penstock.state.tables.key_index import KeyIndex
from penstock.state.tables.prefix_lists import PrefixLists

# Grouping a batch first costs about half a look-up a row; it is tried again after so many batches without.
_FEWEST_ROWS = 256
_WORTH_IT = 0.4
_BATCHES_WITHOUT = 31


class MemoryBagCells(BagCells):
    """Multisets of values of one type, compared as keys are (one NaN, -0.0 is 0.0, 1.0 is 1.00)."""

    def __init__(self, type_: pa.DataType, account: Account, lanes: int = 1, counted: bool = True) -> None:
        self.type = type_
        self._counted = counted
        self._account = account
        self._codec = KeyCodec([type_])
        # By item: a count for each lane, or the lanes it is in as bits of one word.
        self._counts = np.zeros((0, lanes if counted else 1), np.int64)
        self._distinct = np.zeros((0, lanes), np.int64)
        self._lists = PrefixLists(account, ordered=False)
        self._grouper = KeyGrouper()
        self._pause = 0
        self._index = KeyIndex(self._codec, self._lists, account, self._grow_items)

    def add(
        self,
        slots: Slots,
        values: pa.Array,
        counts: NDArray[np.int64] | None = None,
        lanes: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int8]:
        """Add counts[i] (default 1, may be negative) of values[i] to the bag of slots[i]; null values count as values.

        Bit j of lanes[i] (default: the lowest) says whether lane j counts the row. A value all of whose counts reach
        zero is forgotten; a negative count is kept (a retraction before its insert).

        Returns:
            By how much each row changed the number of distinct values of its slot, in the lowest lane.

        Raises:
            SchemaError: the values are not of the column's type.
            StateBudgetError: no room; then nothing was added.
        """
        effects = np.empty(len(slots), np.int8)
        if len(slots) == 0:
            return effects
        if not self._counted and counts is not None:
            raise BugError("values of a set were given counts.")
        items = self._locate(self._codec.encode([values]), slots)
        lane_bits = NO_INTEGERS if lanes is None else read_only(lanes)
        if not self._counted:
            add_marks(read_only(items), read_only(slots), lane_bits, self._counts, self._distinct, effects)
            return effects
        emptied = np.empty(len(items), np.int64)
        filled = add_counts(
            read_only(items),
            read_only(slots),
            NO_INTEGERS if counts is None else read_only(counts),
            lane_bits,
            self._counts,
            self._distinct,
            effects,
            emptied,
        )
        self._index.remove(emptied[:filled])
        return effects

    def distinct(self, slots: Slots) -> NDArray[np.int64]:
        """Return how many values have a positive count in each slot's bag."""
        return _flat(self._distinct[slots])

    def items(self, slots: Slots) -> tuple[NDArray[np.int64], pa.Array, NDArray[np.int64]]:
        """Return (position in `slots`, value, count) of every item of these bags, grouped by position."""
        sizes, items = self._lists.of(slots)
        positions = np.repeat(np.arange(len(slots)), sizes)
        counts = self._counts[items]
        if not self._counted:
            counts = counts >> np.arange(self._distinct.shape[1]) & 1
        return positions, self._index.key_columns(items)[0], _flat(counts)

    def absorb(self, into: Slots, other: BagCells, slots: Slots) -> None:
        """Add every item of other's slots[i] to the bag of into[i]."""
        positions, values, counts = other.items(slots)
        self._add_items(into[positions], values, counts)

    def clear(self, slots: Slots) -> None:
        """Empty these bags, each named once."""
        items = self._lists.of(slots)[1]
        self._counts[items] = 0
        self._index.remove(items)
        self._distinct[slots] = 0

    def grow(self, slots: int) -> None:
        """Make room for slots < `slots`."""
        (self._distinct,) = self._account.longer(slots, self._distinct)

    def dump(self, slots: Slots) -> pa.Array:
        """Return these bags as one array: per slot a list of (value, count), with several lanes (value, counts)."""
        _, values, counts = self.items(slots)
        offsets = np.zeros(len(slots) + 1, np.int32)
        np.cumsum(self._lists.of(slots)[0], out=offsets[1:])
        column = pa.array(counts.ravel())
        if counts.ndim > 1:
            column = pa.FixedSizeListArray.from_arrays(column, counts.shape[1])
        items = pa.StructArray.from_arrays([values, column], ["value", "count"])
        return pa.ListArray.from_arrays(pa.array(offsets), items)

    def load(self, slots: Slots, cells: pa.Array) -> None:
        """Write cells that `dump` returned to fresh slots."""
        sizes = np.diff(cells.offsets.to_numpy())
        values, column = cells.flatten().flatten()
        lanes = self._distinct.shape[1]
        counts = column.to_numpy() if lanes == 1 else column.flatten().to_numpy().reshape(-1, lanes)
        self._add_items(np.repeat(slots, sizes), values, counts)

    def _locate(self, keys: KeyBatch, slots: Slots) -> NDArray[np.int64]:
        """Return each row's item, created if need be; what repeats within the batch is looked up once, if that pays."""
        if len(slots) < _FEWEST_ROWS or self._pause:
            self._pause = max(0, self._pause - 1)
            return self._index.locate(keys, slots, create=True)[0]
        groups, first_rows = self._grouper.group(keys, slots)
        if len(first_rows) > _WORTH_IT * len(slots):
            self._pause = _BATCHES_WITHOUT
            return self._index.locate(keys, slots, create=True)[0]
        return self._index.locate(keys.take(first_rows), slots[first_rows], create=True)[0].take(groups)

    def _add_items(self, slots: Slots, values: pa.Array, counts: NDArray[np.int64]) -> None:
        if not self._counted:
            width = self._distinct.shape[1]
            self.add(slots, values, lanes=counts.reshape(len(slots), width) @ (1 << np.arange(width)))
            return
        if counts.ndim == 1:
            self.add(slots, values, counts)
            return
        for lane in range(counts.shape[1]):
            used = np.flatnonzero(counts[:, lane])
            lanes = np.full(len(used), 1 << lane)
            self.add(slots[used], values.take(pa.array(used)), counts[used, lane], lanes)

    def _grow_items(self, items: int) -> None:
        (self._counts,) = self._account.longer(items, self._counts)


def _flat(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drop the axis of lanes if there is one lane only."""
    return counts[:, 0] if counts.shape[1] == 1 else counts
