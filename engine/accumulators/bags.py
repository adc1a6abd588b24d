"""count_distinct and collect: aggregates that keep a multiset of values per group and can
therefore retract.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import Rows, bitmap, build, kept_rows, signs_of, taken
from penstock.engine.accumulators.cells import Accumulator, Cells
from penstock.engine.accumulators.ordering import canonical
from penstock.engine.kernels.running_totals import follow_counts
from penstock.model.errors import NumericOverflowError
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import BagCells, BagColumn, KeyedTable, Slots

DISTINCT = "distinct values"
"""The family of the aggregates that count distinct values; whatever their filters, they share a bag."""

MOST_LANES = 63
"""How many aggregates can share one bag."""


def count_distinct(kind: pa.DataType, updating: bool, lanes: int = 1, lane: int = 0) -> Accumulator:
    """Count the different values that are not null, in an int64; NaN is one value, and so is
    zero.

    Aggregates over the same values with different filters share one bag: this one answers from
    ``lane``. `CountDistinct.update_lanes` feeds them all.
    """
    return Accumulator(
        {"values": BagColumn(kind, lanes, counted=updating)},
        pa.int64(),
        lambda table, prefix: CountDistinct(table, prefix, updating, lane),
        retractable=updating,
        family=DISTINCT,
    )


def collect(kind: pa.DataType) -> Accumulator:
    """List the values, nulls included: ascending, NaN after numbers, nulls last, so that arrival
    does not show.
    """
    return Accumulator({"values": BagColumn(kind)}, pa.list_(kind), lambda table, prefix: Collect(table, prefix, kind))


class BagOfValues(Cells):
    """A bag of the values of each group."""

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Put other's values into my bags."""
        self.bag().absorb(into, self.peer(other).bag(), slots)

    def bag(self) -> BagCells:
        """Return the bags."""
        return self.table.bag(self.prefix + "values")


class CountDistinct(BagOfValues):
    """The number of values in a lane of each bag."""

    def __init__(self, table: KeyedTable, prefix: str, updating: bool, lane: int) -> None:
        super().__init__(table, prefix)
        self.updating = updating
        self.lane = lane

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Add and remove values by weight."""
        self._add(rows, values, where, None)

    def update_lanes(self, rows: Rows, values: Sequence[pa.Array], filters: Sequence[Mask | None]) -> None:
        """Add and remove values by weight, in every lane whose filter is true."""
        always = sum(1 << lane for lane, where in enumerate(filters) if where is None)
        lanes = np.full(len(rows.slots), always)
        for lane, where in enumerate(filters):
            if where is not None:
                lanes |= where.astype(np.int64) << lane
        self._add(rows, values, None if always else lanes != 0, lanes)

    def follow(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> pa.Array:
        """Add the values in one go: the bag knows which row brought one that was not there."""
        distinct, groups = np.unique(rows.slots, return_inverse=True)
        counts = self.bag().distinct(distinct).copy()
        kept, effects = self._add(rows, values, where, None)
        changes = np.zeros(len(groups), np.int64)
        changes[slice(None) if kept is None else kept] = effects
        follow_counts(read_only(groups), counts, changes)
        return build(pa.int64(), changes)

    def result(self, slots: Slots) -> pa.Array:
        """Return the number of values of each bag."""
        counts = self.bag().distinct(slots)
        return build(pa.int64(), np.ascontiguousarray(counts if counts.ndim == 1 else counts[:, self.lane]))

    def _add(
        self,
        rows: Rows,
        values: Sequence[pa.Array],
        where: Mask | None,
        lanes: Ints | None,
    ) -> tuple[Ints | None, NDArray[np.int8]]:
        """Put the rows that count into the bags; return which ones (None: all) and what each did to the lowest lane."""
        kept = kept_rows(rows.slots, signs_of(rows, where, values))
        counts = taken(rows.weights, kept).astype(np.int64) if self.updating and rows.weights is not None else None
        chosen = None if lanes is None else taken(lanes, kept)
        return kept, self.bag().add(taken(rows.slots, kept), canonical(taken(values[0], kept)), counts, chosen)


class Collect(BagOfValues):
    """All values, nulls included."""

    def __init__(self, table: KeyedTable, prefix: str, kind: pa.DataType) -> None:
        super().__init__(table, prefix)
        self.kind = kind

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Add and remove values by weight."""
        signs = signs_of(rows, where, ())
        kept = kept_rows(rows.slots, signs)
        slots: Slots = taken(rows.slots, kept)
        if len(slots):
            counts = None if signs.shape[0] == 0 else taken(signs, kept).astype(np.int64)
            self.bag().add(slots, canonical(taken(values[0], kept)), counts)

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
