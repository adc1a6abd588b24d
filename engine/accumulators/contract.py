"""The contract of an accumulator: the state columns of one aggregate and what happens to them, batch by batch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.state.keys.arrays import Ints, Mask
from penstock.state.store import ColumnSpec, KeyedTable, Slots


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one batch as accumulators see them, one entry per row in every array.

    ``slots``: the group of each row; -1 leaves the row out. ``weights``: +1 or -1 of a changelog (None: all +1).
    ``times_us``: event times (None: unknown).
    """

    slots: Slots
    weights: NDArray[np.int8] | None = None
    times_us: Ints | None = None


class Accumulator(ABC):
    """One aggregate. It names its columns; `bind` makes it work on a table that has them.

    ``columns`` are the accumulator's own names; in the table they are ``prefix + name``. ``result_type`` is the type
    of the aggregate's result column. ``retractable`` says whether negative weights are understood.
    """

    columns: Mapping[str, ColumnSpec]
    result_type: pa.DataType
    retractable: bool

    @abstractmethod
    def bind(self, table: KeyedTable, prefix: str) -> "Cells":
        """Return the accumulator's face on one table."""


class Cells(ABC):
    """An accumulator's columns in one table."""

    @abstractmethod
    def reset(self, slots: Slots) -> None:
        """Prepare fresh slots (all their fixed cells are zero)."""

    @abstractmethod
    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Fold row i into slot rows.slots[i] where ``where`` is true; values[j] is input j of the aggregate.

        Nulls do not count, except in ``count()`` of rows and in ``collect``: a row with a null in
        any input is left out. State never overflows, so an update leaves nothing half done.
        """

    @abstractmethod
    def absorb(self, into: Slots, other: "Cells", slots: Slots) -> None:
        """Merge other's slots[i] into my into[i]; `into` may repeat, ``other`` may be this object."""

    @abstractmethod
    def scan(self, slots: Slots, places: Ints) -> None:
        """Let every slot absorb the slots of its run before it, runs following each other in ``slots``.

        places[i] says how many of its run come before slots[i]; no slot repeats.
        """

    @abstractmethod
    def follow(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> pa.Array:
        """Fold the rows in one after the other; return what its slot's `result` is after each, slots all >= 0."""

    @abstractmethod
    def result(self, slots: Slots) -> pa.Array:
        """Return the aggregate's value of each slot, in ``result_type``; null for an empty group (count: 0).

        Raises:
            NumericOverflowError: a result does not fit its type, whatever the order of rows was;
                the message says what does not fit, the caller adds operator and column.
        """
