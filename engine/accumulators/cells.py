"""The base of accumulators over a keyed table: their columns by name and the check of whom
they merge with.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import taken
from penstock.engine.accumulators.contract import Accumulator, Cells, Rows
from penstock.engine.kernels.order import number_rows
from penstock.model.errors import BugError
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import ColumnSpec, FixedColumn, KeyedTable, Slots, TextColumn

INTEGER = FixedColumn(np.dtype(np.int64))
DOUBLE = FixedColumn(np.dtype(np.float64))
FLAG = FixedColumn(np.dtype(np.uint8))


class TableAccumulator(Accumulator):
    """An accumulator given by its columns, its result type and how to make cells.

    Accumulators of one ``family`` (None: of none) keep the same state and differ only in
    `Cells.result`: over the same rows one of them needs to be updated.
    """

    def __init__(
        self,
        columns: Mapping[str, ColumnSpec],
        result_type: pa.DataType,
        cells: Callable[[KeyedTable, str], Cells],
        retractable: bool = True,
        family: Hashable = None,
    ) -> None:
        self.columns = columns
        self.result_type = result_type
        self.retractable = retractable
        self.family = family
        self._cells = cells

    @property
    def plain(self) -> bool:
        """True if a group takes little room whatever its rows are, so that every row can have a group of its own."""
        return all(isinstance(spec, FixedColumn | TextColumn) for spec in self.columns.values())

    def bind(self, table: KeyedTable, prefix: str) -> Cells:
        """Return the accumulator's face on one table."""
        return self._cells(table, prefix)


class TableCells(Cells):
    """Cells whose fresh state is all zeros; subclasses fold, merge and finish."""

    def __init__(self, table: KeyedTable, prefix: str) -> None:
        self.table = table
        self.prefix = prefix

    def reset(self, slots: Slots) -> None:
        """Zeros are a fresh state."""

    def scan(self, slots: Slots, places: Ints) -> None:
        """Merge in steps of 1, 2, 4, ...: after each, a slot holds twice as many of its run."""
        step = 1
        while (into := np.flatnonzero(places >= step)[::-1]).size:
            # Backwards, so that no slot is read after it has been written, whatever order `absorb` keeps to.
            self.absorb(slots[into], self, slots[into - step])
            step *= 2

    def follow(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> pa.Array:
        """Fold in rounds, the first rows of all slots, then the second ones, and so on."""
        distinct, groups = np.unique(rows.slots, return_inverse=True)
        rounds = number_rows(read_only(groups), np.zeros(len(distinct), np.int64))
        order = np.argsort(rounds, kind="stable")
        results = [self.result(rows.slots[:0])]
        for part in np.split(order, np.cumsum(np.bincount(rounds))[:-1]):
            weights = None if rows.weights is None else rows.weights[part]
            times_us = None if rows.times_us is None else rows.times_us[part]
            self.update(
                Rows(rows.slots[part], weights, times_us),
                [taken(array, part) for array in values],
                None if where is None else where[part],
            )
            results.append(self.result(rows.slots[part]))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return pa.concat_arrays(results).take(pa.array(places))

    def array(self, name: str) -> NDArray[Any]:
        """Return the array of one of my fixed columns, as it is now."""
        return self.table.array(self.prefix + name)

    def peer(self, other: Cells) -> Self:
        """Return ``other`` as one of my own kind.

        Raises:
            BugError: it belongs to another aggregate.
        """
        if not isinstance(other, type(self)):
            raise BugError(f"state of {type(other).__name__} was merged into {type(self).__name__}; please report it")
        return other
