"""What all accumulators over a keyed table share: their columns by name and the check of whom
they merge with.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.contract import Accumulator, Cells
from penstock.model.errors import BugError
from penstock.state.store import ColumnSpec, Fixed, KeyedTable, Slots

INTEGER = Fixed(np.dtype(np.int64))
DOUBLE = Fixed(np.dtype(np.float64))
FLAG = Fixed(np.dtype(np.uint8))


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
