"""Sums and means of floating-point numbers, compensated so that order and batch size hardly show.

On a changelog NaN and the infinities are counted apart, so that they can be retracted.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import (
    NO_SIGNS,
    NO_WORDS,
    Rows,
    Signs,
    build,
    doubles,
    signs_of,
)
from penstock.engine.accumulators.cells import DOUBLE, Accumulator, Cells
from penstock.engine.kernels.accumulate_floats import DoubleSums, add_doubles
from penstock.engine.kernels.running_totals import scan_doubles
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import INTEGER, ColumnSpec, KeyedTable, Slots

_SPECIAL = ("nans", "ups", "downs")


def float_sum(updating: bool) -> Accumulator:
    """Sum to a double; finite values whose running sum leaves the range of doubles give an
    infinity, as in IEEE.
    """
    return _accumulator(updating, lambda table, prefix: FloatSum(table, prefix, updating))


def float_mean(updating: bool) -> Accumulator:
    """Mean as a double."""
    return _accumulator(updating, lambda table, prefix: FloatMean(table, prefix, updating))


def _accumulator(updating: bool, cells: Callable[[KeyedTable, str], Cells]) -> Accumulator:
    columns: dict[str, ColumnSpec] = {"sum": DOUBLE, "rest": DOUBLE, "count": INTEGER}
    if updating:
        columns |= dict.fromkeys(_SPECIAL, INTEGER)
    return Accumulator(columns, pa.float64(), cells, retractable=updating, family=("float sum", updating))


class FloatSum(Cells):
    """sum + rest over ``count`` values; ``updating`` keeps the values that are not finite apart."""

    def __init__(self, table: KeyedTable, prefix: str, updating: bool) -> None:
        super().__init__(table, prefix)
        self.updating = updating

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Add the values, signed by weight."""
        self._add(read_only(rows.slots), signs_of(rows, where, values), doubles(values[0]), 1)

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Add other's sums."""
        mine, theirs = read_only(into), self.peer(other)
        sums, rests = theirs.array("sum")[slots], theirs.array("rest")[slots]
        self.add(("count", *(_SPECIAL if self.updating else ())), into, theirs, slots)
        self._add(mine, NO_SIGNS, read_only(sums), 0)
        self._add(mine, NO_SIGNS, read_only(np.where(np.isfinite(sums), rests, 0.0)), 0)

    def scan(self, slots: Slots, places: Ints) -> None:
        """Add up in one pass, if values that are not finite may stay in the sum."""
        if self.updating:
            super().scan(slots, places)
            return
        sums, rests, counts = (self.array(name) for name in ("sum", "rest", "count"))
        scan_doubles(read_only(slots), read_only(places), sums, rests, counts)

    def result(self, slots: Slots) -> pa.Array:
        """Return the sums."""
        return build(pa.float64(), self.totals(slots), self.array("count")[slots] > 0)

    def exact_part(self, slots: Slots) -> tuple[NDArray[np.float64], Ints]:
        """Return the sums and the numbers of values."""
        return self.totals(slots), self.array("count")[slots]

    def totals(self, slots: Slots) -> NDArray[np.float64]:
        """Return the sums as doubles, 0 for empty groups."""
        sums: NDArray[np.float64] = self.array("sum")[slots]
        rests = self.array("rest")[slots]
        with np.errstate(over="ignore", invalid="ignore"):
            totals = np.where(np.isfinite(sums), sums + rests, sums)
        if not self.updating:
            return totals
        nans, ups, downs = (self.array(name)[slots] > 0 for name in _SPECIAL)
        totals[ups] = np.inf
        totals[downs] = -np.inf
        totals[nans | (ups & downs)] = np.nan
        return totals

    def _add(self, slots: Slots, signs: Signs, values: NDArray[np.float64], unit: int) -> None:
        special = [self.array(name) if self.updating else NO_WORDS for name in _SPECIAL]
        into = DoubleSums(self.array("sum"), self.array("rest"), self.array("count"), *special)
        add_doubles(slots, signs, values, unit, into)


class FloatMean(FloatSum):
    """The same state, divided."""

    def result(self, slots: Slots) -> pa.Array:
        """Return sum / count."""
        counts = self.array("count")[slots]
        return build(pa.float64(), self.totals(slots) / np.maximum(counts, 1), counts > 0)
