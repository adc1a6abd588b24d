"""count() of rows and count(expression) of values that are not null."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import Rows, build, signs_of
from penstock.engine.accumulators.cells import Accumulator, Cells
from penstock.engine.kernels.accumulate import add_counts
from penstock.engine.kernels.running_totals import scan_counts
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import INTEGER, Slots


def count() -> Accumulator:
    """Count rows (without inputs) or rows whose inputs are all known, in an int64."""
    return Accumulator({"count": INTEGER}, pa.int64(), CountCells)


class CountCells(Cells):
    """A signed number of rows."""

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Add the weights of the rows that count."""
        add_counts(read_only(rows.slots), signs_of(rows, where, values), self.array("count"))

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Add other's counts."""
        self.add(("count",), into, self.peer(other), slots)

    def scan(self, slots: Slots, places: Ints) -> None:
        """Add up in one pass."""
        scan_counts(read_only(slots), read_only(places), self.array("count"))

    def exact_part(self, slots: Slots) -> tuple[NDArray[np.float64], Ints]:
        """Return the counts twice."""
        counts = np.maximum(self.array("count")[slots], 0)
        return counts.astype(np.float64), counts

    def result(self, slots: Slots) -> pa.Array:
        """Return the counts; never below zero."""
        return build(pa.int64(), np.maximum(self.array("count")[slots], 0))
