"""The contract of an accumulator: the state columns of one aggregate and what happens to them, batch by batch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import Rows, taken
from penstock.engine.kernels.accumulate import add_deltas
from penstock.engine.kernels.order import number_rows
from penstock.model.errors import BugError
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import ColumnSpec, FixedColumn, KeyedTable, Slots, TextColumn

DOUBLE = FixedColumn(np.dtype(np.float64))
FLAG = FixedColumn(np.dtype(np.uint8))


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One aggregate: its columns, its result type, and what makes its cells in a table that has the columns.

    ``columns`` are the accumulator's own names; in the table they are ``prefix + name``. ``retractable`` says whether
    negative weights are understood. Accumulators of one ``family`` (None: of none) keep the same state and differ only
    in `Cells.result`: over the same rows one of them needs to be updated.
    """

    columns: Mapping[str, ColumnSpec]
    result_type: pa.DataType
    cells: Callable[[KeyedTable, str], "Cells"]
    retractable: bool = True
    family: Hashable = None

    @property
    def plain(self) -> bool:
        """True if a group takes little room whatever its rows are, so that every row can have a group of its own."""
        return all(isinstance(spec, FixedColumn | TextColumn) for spec in self.columns.values())


class Cells(ABC):
    """An accumulator's columns in one table, whose fresh state is all zeros; subclasses fold, merge and finish."""

    def __init__(self, table: KeyedTable, prefix: str) -> None:
        self.table = table
        self.prefix = prefix

    def reset(self, slots: Slots) -> None:
        """Prepare fresh slots (all their fixed cells are zero)."""

    @abstractmethod
    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Fold row i into slot rows.slots[i] where ``where`` is true; values[j] is input j of the aggregate.

        Nulls do not count, except in ``count()`` of rows and in ``collect``: a row with a null in any input is left
        out. State never overflows, so an update leaves nothing half done.
        """

    @abstractmethod
    def absorb(self, into: Slots, other: "Cells", slots: Slots) -> None:
        """Merge other's slots[i] into my into[i]; ``into`` may repeat, ``other`` may be this object."""

    @abstractmethod
    def result(self, slots: Slots) -> pa.Array:
        """Return the aggregate's value of each slot, in ``result_type``; null for an empty group (count: 0).

        Raises:
            NumericOverflowError: a result does not fit its type, whatever the order of rows was; the message says what
                does not fit, the caller adds operator and column.
        """

    def scan(self, slots: Slots, places: Ints) -> None:
        """Let every slot absorb the slots of its run before it, runs following each other in ``slots``.

        places[i] says how many of its run come before slots[i]; no slot repeats. Merged in steps of 1, 2, 4, ...: after
        each, a slot holds twice as many of its run.
        """
        step = 1
        while (into := np.flatnonzero(places >= step)[::-1]).size:
            # Backwards, so that no slot is read after it has been written, whatever order `absorb` keeps to.
            self.absorb(slots[into], self, slots[into - step])
            step *= 2

    def follow(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> pa.Array:
        """Fold the rows in one after the other; return what its slot's `result` is after each, slots all >= 0.

        In rounds: the first rows of all slots, then the second ones, and so on.
        """
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

    def exact_part(self, slots: Slots) -> tuple[NDArray[np.float64], Ints]:
        """Return sums (of counts: counts) and numbers of values, for aggregates that have an estimator.

        Raises:
            BugError: this one has none.
        """
        raise BugError(f"{type(self).__name__} was asked for an estimate; please report it")

    def array(self, name: str) -> NDArray[Any]:
        """Return the array of one of my fixed columns, as it is now."""
        return self.table.array(self.prefix + name)

    def add(self, names: Iterable[str], into: Slots, other: "Cells", slots: Slots) -> None:
        """Add these columns of other's slots[i], which are int64, to mine of into[i]."""
        for name in names:
            add_deltas(read_only(into), read_only(other.array(name)[slots]), self.array(name))

    def peer(self, other: "Cells") -> Self:
        """Return ``other`` as one of my own kind.

        Raises:
            BugError: it belongs to another aggregate.
        """
        if not isinstance(other, type(self)):
            raise BugError(f"state of {type(other).__name__} was merged into {type(self).__name__}; please report it")
        return other
