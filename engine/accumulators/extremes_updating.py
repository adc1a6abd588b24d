"""min, max, first, last, arg_min and arg_max on a changelog: every row is kept in a bag, so that it
can be retracted.

The best row is cached; it is looked for again, when it is asked for, only after it may have been
retracted.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.arrays import Rows, kept_rows, signs_of, taken
from penstock.engine.accumulators.cells import FLAG, Accumulator, Cells
from penstock.engine.accumulators.extremes import BestCells, BestOrder, text_type
from penstock.engine.accumulators.ordering import Keys
from penstock.engine.accumulators.pairs import pack, unpack
from penstock.state.keys.arrays import Mask
from penstock.state.store import BagCells, BagColumn, ColumnSpec, KeyedTable, Slots

_RETRACTED = 1
_STALE = 2


def best_updating(order: BestOrder) -> Accumulator:
    """Keep every row of a changelog."""
    columns: dict[str, ColumnSpec] = {
        **order.columns(),
        "doubt": FLAG,
        "rows": BagColumn(_bag_type(order)),
    }
    return Accumulator(
        columns,
        order.answer_part.type,
        lambda table, prefix: BestUpdatingCells(table, prefix, order),
    )


class BestUpdatingCells(Cells):
    """A bag of rows and the best of them.

    ``doubt``: 0 as long as nothing was retracted, then the cached row is the best of the bag; 1 the
    same, but the bag may owe inserts that are worse than the cached row; 2 the cached row means
    nothing.
    """

    def __init__(self, table: KeyedTable, prefix: str, order: BestOrder) -> None:
        super().__init__(table, prefix)
        self.order = order
        self.best = BestCells(table, prefix, order)
        self.text_types = [text_type(part) if part.text else None for part in order.levels]

    def reset(self, slots: Slots) -> None:
        """Forget the cached rows."""
        self.best.reset(slots)

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Add and remove rows by weight."""
        signs = signs_of(rows, where, values)
        kept = kept_rows(rows.slots, signs)
        slots: Slots = taken(rows.slots, kept)
        counts = np.ones(len(slots), np.int64) if signs.shape[0] == 0 else taken(signs, kept).astype(np.int64)
        keys: Keys = [taken(key, kept) for key in self.order.keys(rows, values)]
        if len(slots) == 0:
            return
        self.best.fold(slots, (counts > 0).view(np.int8), keys)
        retracted = np.flatnonzero(counts < 0)
        if retracted.size:
            self._doubt(slots[retracted], [taken(key, retracted) for key in keys])
        self._bag().add(slots, self._packed(keys), counts)

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Put other's rows into my bags."""
        theirs = self.peer(other)
        self.best.absorb(into, theirs.best, slots)
        doubt = self.array("doubt")
        in_doubt = (doubt[into] > 0) | (theirs.array("doubt")[slots] > 0)  # one side's debt may be the other's best
        doubt[into[in_doubt]] = _STALE
        self._bag().absorb(into, theirs._bag(), slots)

    def result(self, slots: Slots) -> pa.Array:
        """Return the answer's column of the best rows that are left."""
        doubt = self.array("doubt")
        stale = np.unique(slots[doubt[slots] == _STALE])
        if stale.size:
            position, rows, counts = self._bag().items(stale)
            self.best.forget(stale)
            doubt[stale] = _RETRACTED
            doubt[stale[position[counts < 0]]] = _STALE
            if len(rows):
                self.best.fold(stale[position], (counts > 0).view(np.int8), self._unpacked(rows))
        return self.best.result(slots)

    def _doubt(self, slots: Slots, keys: Keys) -> None:
        """Note that these rows left groups whose cached row may have been one of them."""
        doubt = self.array("doubt")
        doubt[slots] = np.maximum(doubt[slots], _RETRACTED)
        if self.order.texts:
            doubt[slots] = _STALE
            return
        worse = np.zeros(len(slots), np.bool_)
        equal = self.best.has(slots) > 0
        for mine, theirs in zip(self.best.keys(slots), keys, strict=True):
            worse |= equal & (theirs > mine)
            equal &= theirs == mine
        doubt[slots[~worse]] = _STALE

    def _packed(self, keys: Keys) -> pa.Array:
        if len(keys) > 1:
            return pack(keys)
        return pa.array(keys[0]) if isinstance(keys[0], np.ndarray) else keys[0]

    def _unpacked(self, rows: pa.Array) -> Keys:
        if len(self.text_types) > 1:
            return unpack(rows, self.text_types)
        return [rows] if self.order.texts else [rows.to_numpy()]

    def _bag(self) -> BagCells:
        return self.table.bag(self.prefix + "rows")


def _bag_type(order: BestOrder) -> pa.DataType:
    """Return what stands for a whole row: its only key, or all of them packed."""
    if len(order.levels) > 1:
        return pa.binary()
    return text_type(order.levels[0]) if order.texts else pa.int64()
