"""Sample variance and standard deviation, from sums of values and squares in two doubles each.

Unlike Welford's running mean these sums can be merged and retracted in any order. Their 106 bits
keep results exact to 1e-9 while no value ever seen is beyond about 1e10 standard deviations.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import NO_SIGNS, NO_WORDS, Rows, build, doubles, signs_of
from penstock.engine.accumulators.cells import DOUBLE, Accumulator, Cells
from penstock.engine.kernels.accumulate_floats import DoubleSums, SquareSums, add_doubles, add_squares
from penstock.state.keys.arrays import Mask, read_only
from penstock.state.store import INTEGER, ColumnSpec, KeyedTable, Slots

Doubles = NDArray[np.float64]

_SPLIT = 134217729.0
_SUMS, _COUNTS = ("sum", "sum_rest", "square", "square_rest"), ("count", "odd")
"""The columns, in the order of `SquareSums`."""


def variance(root: bool) -> Accumulator:
    """Sample variance (``root``: standard deviation) as a double.

    Null below two values; NaN if one is NaN, infinite or beyond 1e140, whose square is no number to
    work with.
    """
    columns: dict[str, ColumnSpec] = dict.fromkeys(_SUMS, DOUBLE)
    columns |= dict.fromkeys(_COUNTS, INTEGER)
    return Accumulator(columns, pa.float64(), lambda table, prefix: Spread(table, prefix, root), family="squares")


class Spread(Cells):
    """Sums of values and squares over ``count`` values, ``odd`` of which have no square and are
    in neither.
    """

    def __init__(self, table: KeyedTable, prefix: str, root: bool) -> None:
        super().__init__(table, prefix)
        self.root = root

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Add the values and their squares, signed by weight."""
        into = SquareSums(*map(self.array, (*_SUMS, *_COUNTS)))
        add_squares(read_only(rows.slots), signs_of(rows, where, values), doubles(values[0]), into)

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Add other's sums."""
        mine, theirs = read_only(into), self.peer(other)
        self.add(_COUNTS, into, theirs, slots)
        for name in ("sum", "square"):
            self._add_pair(mine, name, theirs.array(name)[slots], theirs.array(name + "_rest")[slots])

    def result(self, slots: Slots) -> pa.Array:
        """Return (sum of squares - sum**2 / n) / (n - 1), or its root."""
        counts = self.array("count")[slots]
        divisor = np.maximum(counts, 2).astype(np.float64)
        total, total_rest = _two_sum(self.array("sum")[slots], self.array("sum_rest")[slots])
        square, square_rest = _two_product(total, total)
        square_rest += 2.0 * total * total_rest
        mean = square / divisor
        product, product_rest = _two_product(mean, divisor)
        mean_rest = ((square - product) - product_rest + square_rest) / divisor
        spread, spread_rest = _two_sum(self.array("square")[slots], -mean)
        spread += spread_rest + self.array("square_rest")[slots] - mean_rest
        result = np.maximum(spread, 0.0) / (divisor - 1.0)
        result[self.array("odd")[slots] > 0] = np.nan
        return build(pa.float64(), np.sqrt(result) if self.root else result, counts > 1)

    def _add_pair(self, into: Slots, name: str, sums: Doubles, rests: Doubles) -> None:
        """Add compensated sums to compensated sums; ``into`` may repeat."""
        target, rest, counts = (self.array(column) for column in (name, name + "_rest", "count"))
        totals = DoubleSums(target, rest, counts, NO_WORDS, NO_WORDS, NO_WORDS)
        for values in (sums, rests):
            add_doubles(into, NO_SIGNS, read_only(values), 0, totals)


def _two_sum(left: Doubles, right: Doubles) -> tuple[Doubles, Doubles]:
    """Return the rounded sum and its exact error."""
    total = left + right
    taken = total - left
    return total, (left - (total - taken)) + (right - taken)


def _two_product(left: Doubles, right: Doubles) -> tuple[Doubles, Doubles]:
    """Return the rounded product and its exact error."""
    product = left * right
    left_head, right_head = _head(left), _head(right)
    left_tail, right_tail = left - left_head, right - right_head
    error = (
        (left_head * right_head - product) + left_head * right_tail + left_tail * right_head
    ) + left_tail * right_tail
    return product, error


def _head(value: Doubles) -> Doubles:
    """Return the upper half of the mantissa."""
    scaled = _SPLIT * value
    head: Doubles = scaled - (scaled - value)
    return head
