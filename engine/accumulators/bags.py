"""count_distinct and collect: aggregates that keep a multiset of values per group and can
therefore retract.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import bitmap, build, kept_rows, signs_of, taken
from penstock.engine.accumulators.cells import TableAccumulator, TableCells
from penstock.engine.accumulators.contract import Cells, Rows
from penstock.engine.accumulators.ordering import canonical
from penstock.model.errors import NumericOverflowError
from penstock.state.store import Bag, BagCells, KeyedTable, Slots


def count_distinct(kind: pa.DataType) -> TableAccumulator:
    """Count the different values that are not null, in an int64; NaN is one value, and so is
    zero.
    """
    return TableAccumulator({"values": Bag(kind)}, pa.int64(), CountDistinct)


def collect(kind: pa.DataType) -> TableAccumulator:
    """List the values, nulls included: ascending, NaN after numbers, nulls last, so that arrival
    does not show.
    """
    return TableAccumulator({"values": Bag(kind)}, pa.list_(kind), lambda table, prefix: Collect(table, prefix, kind))


class CountDistinct(TableCells):
    """A bag of the values of each group."""

    skips_nulls = True

    def update(self, rows: Rows, values: Sequence[pa.Array], where: NDArray[np.bool_] | None) -> None:
        """Add and remove values by weight."""
        signs = signs_of(rows, where, values if self.skips_nulls else ())
        kept = kept_rows(rows.slots, signs)
        slots: Slots = taken(rows.slots, kept)
        if len(slots):
            counts = None if signs.shape[0] == 0 else taken(signs, kept).astype(np.int64)
            self.bag().add(slots, canonical(taken(values[0], kept)), counts)

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Put other's values into my bags."""
        self.bag().absorb(into, self.peer(other).bag(), slots)

    def result(self, slots: Slots) -> pa.Array:
        """Return the number of values of each bag."""
        return build(pa.int64(), self.bag().distinct(slots))

    def bag(self) -> BagCells:
        """Return the bags."""
        return self.table.bag(self.prefix + "values")


class Collect(CountDistinct):
    """The same bags, nulls included."""

    skips_nulls = False

    def __init__(self, table: KeyedTable, prefix: str, kind: pa.DataType) -> None:
        super().__init__(table, prefix)
        self.kind = kind

    def result(self, slots: Slots) -> pa.Array:
        """Return the values of each bag as a sorted list; null for an empty bag.

        Raises:
            NumericOverflowError: the lists have more values than 32-bit offsets count.
        """
        position, values, counts = self.bag().items(slots)
        order = pc.sort_indices(
            pa.record_batch([pa.array(position), values], names=["group", "value"]),
            sort_keys=[("group", "ascending"), ("value", "ascending")],
        ).to_numpy()
        copies = np.maximum(counts, 0)
        total = int(copies.sum())
        if total > np.iinfo(np.int32).max:
            raise NumericOverflowError(
                f"{total} collected values do not fit into one batch of lists; use smaller groups"
            )
        lengths = np.bincount(position, weights=copies, minlength=len(slots)).astype(np.int32)
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        children = [values.take(pa.array(np.repeat(order, copies[order])))]
        buffers = [bitmap(lengths > 0), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(pa.list_(self.kind), len(slots), buffers, children=children)
