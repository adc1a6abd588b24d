"""Exact sums and means of integers, durations and decimals.

A sum is kept modulo 2**64 (decimals: 2**128) together with the number of times it wrapped, so it is
exact whatever the order of rows; it is an error only if the *result* does not fit its type.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import (
    NO_SIGNS,
    Rows,
    Signs,
    Words,
    build,
    fixed,
    integers,
    signs_of,
)
from penstock.engine.accumulators.cells import Accumulator, Cells
from penstock.engine.kernels.accumulate import add_deltas, add_integers, add_wide
from penstock.engine.kernels.running_totals import scan_integers
from penstock.model.errors import NumericOverflowError
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import INTEGER, KeyedTable, Slots

_DIGITS = 10**38 - 1
_WIDE = ("low", "high")


def integer_sum(kind: pa.DataType) -> Accumulator:
    """Sum integers to int64, or durations to their own type."""
    result_type = kind if pt.is_duration(kind) else pa.int64()
    return _accumulator(("sum",), result_type, lambda table, prefix: IntegerSum(table, prefix, result_type))


def integer_mean() -> Accumulator:
    """Mean of integers as a double, from the exact sum."""
    return _accumulator(("sum",), pa.float64(), lambda table, prefix: IntegerMean(table, prefix, pa.float64()))


def decimal_sum(kind: pa.DataType) -> Accumulator:
    """Sum decimal(p, s) to decimal(38, s)."""
    result_type = pa.decimal128(38, kind.scale)
    return _accumulator(_WIDE, result_type, lambda table, prefix: DecimalSum(table, prefix, result_type, kind.scale))


def decimal_mean(kind: pa.DataType) -> Accumulator:
    """Mean of decimals as a double, from the exact sum."""
    return _accumulator(
        _WIDE,
        pa.float64(),
        lambda table, prefix: DecimalMean(table, prefix, pa.float64(), kind.scale),
    )


def _accumulator(
    words: tuple[str, ...], result_type: pa.DataType, cells: Callable[[KeyedTable, str], Cells]
) -> Accumulator:
    columns = dict.fromkeys((*words, "wraps", "count"), INTEGER)
    return Accumulator(columns, result_type, cells, family=("exact sum", *words))


class IntegerSum(Cells):
    """sum + wraps * 2**64 over ``count`` values."""

    def __init__(self, table: KeyedTable, prefix: str, result_type: pa.DataType) -> None:
        super().__init__(table, prefix)
        self.result_type = result_type

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Add the values, signed by weight."""
        slots, signs, words = read_only(rows.slots), signs_of(rows, where, values), integers(values[0])
        self._add(slots, signs, words, 1)
        if pt.is_uint64(values[0].type):
            above = np.flatnonzero((words < 0) & (slots >= 0))  # read as signed, these are 2**64 too small
            if above.size:
                missing = np.ones(above.size, np.int64) if signs.shape[0] == 0 else signs[above].astype(np.int64)
                add_deltas(read_only(slots[above]), read_only(missing), self.array("wraps"))

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Add other's sums."""
        mine, theirs = read_only(into), self.peer(other)
        self._add(mine, NO_SIGNS, read_only(theirs.array("sum")[slots]), 0)
        self.add(("wraps", "count"), into, theirs, slots)

    def scan(self, slots: Slots, places: Ints) -> None:
        """Add up in one pass."""
        sums, wraps, counts = (self.array(name) for name in ("sum", "wraps", "count"))
        scan_integers(read_only(slots), read_only(places), sums, wraps, counts)

    def result(self, slots: Slots) -> pa.Array:
        """Return the sums.

        Raises:
            NumericOverflowError: a sum is outside 64 bits.
        """
        valid = self.array("count")[slots] > 0
        if np.any(valid & (self.array("wraps")[slots] != 0)):
            raise NumericOverflowError("the sum does not fit in 64 bits; cast its input to decimal or double")
        return build(self.result_type, self.array("sum")[slots], valid)

    def exact_part(self, slots: Slots) -> tuple[NDArray[np.float64], Ints]:
        """Return the sums and the numbers of values."""
        total = self.array("wraps")[slots] * 2.0**64 + self.array("sum")[slots]
        return total, self.array("count")[slots]

    def _add(self, slots: Slots, signs: Signs, words: Words, unit: int) -> None:
        add_integers(slots, signs, words, unit, self.array("sum"), self.array("wraps"), self.array("count"))


class IntegerMean(IntegerSum):
    """The same state, divided."""

    def result(self, slots: Slots) -> pa.Array:
        """Return sum / count."""
        total, counts = self.exact_part(slots)
        return build(self.result_type, total / np.maximum(counts, 1), counts > 0)


class DecimalSum(Cells):
    """(high, low) + wraps * 2**128 over ``count`` values, in units of the last digit."""

    def __init__(self, table: KeyedTable, prefix: str, result_type: pa.DataType, scale: int) -> None:
        super().__init__(table, prefix)
        self.result_type = result_type
        self.scale = scale

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Add the values, signed by weight."""
        words = fixed(values[0], _PAIR).view(np.int64)
        self._add(read_only(rows.slots), signs_of(rows, where, values), read_only(words), 1)

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Add other's sums."""
        mine, theirs = read_only(into), self.peer(other)
        self._add(mine, NO_SIGNS, read_only(theirs.words(slots)), 0)
        self.add(("wraps", "count"), into, theirs, slots)

    def result(self, slots: Slots) -> pa.Array:
        """Return the sums.

        Raises:
            NumericOverflowError: a sum has more than 38 digits.
        """
        valid = self.array("count")[slots] > 0
        words = self.words(slots)
        if np.any(valid & ((self.array("wraps")[slots] != 0) | _too_long(words[0::2], words[1::2]))):
            raise NumericOverflowError("the sum has more than 38 digits; cast its input to double")
        return build(self.result_type, words, valid)

    def words(self, slots: Slots) -> Words:
        """Return low and high words of these slots in turn: int64[2 * n]."""
        words = np.empty(2 * len(slots), np.int64)
        words[0::2] = self.array("low")[slots]
        words[1::2] = self.array("high")[slots]
        return words

    def exact_part(self, slots: Slots) -> tuple[NDArray[np.float64], Ints]:
        """Return the sums, each the nearest double, and the numbers of values."""
        total, counts = self.units(slots)
        return total / 10.0**self.scale, counts

    def units(self, slots: Slots) -> tuple[NDArray[np.float64], Ints]:
        """Return the sums in units of the last digit, as doubles, and the numbers of values."""
        low, high = self.array("low")[slots], self.array("high")[slots]
        negative = high < 0  # as a sum of words, a small negative number would cancel
        size_low = np.where(negative, -low, low).view(np.uint64)
        size_high = np.where(negative, ~high + (low == 0), high).view(np.uint64)
        size = size_high * 2.0**64 + size_low
        return np.where(negative, -size, size) + self.array("wraps")[slots] * 2.0**128, self.array("count")[slots]

    def _add(self, slots: Slots, signs: Signs, words: Words, unit: int) -> None:
        low, high, wraps, counts = (self.array(name) for name in ("low", "high", "wraps", "count"))
        add_wide(slots, signs, words, unit, low, high, wraps, counts)


class DecimalMean(DecimalSum):
    """The same state, divided."""

    def result(self, slots: Slots) -> pa.Array:
        """Return sum / count."""
        total, counts = self.units(slots)
        return build(self.result_type, total / (np.maximum(counts, 1) * 10.0**self.scale), counts > 0)


_PAIR = np.dtype([("low", np.int64), ("high", np.int64)])


def _too_long(low: Words, high: Words) -> Mask:
    """Return whether 128-bit integers have more than 38 decimal digits."""
    unsigned = low.view(np.uint64)
    limit_high, limit_low = _DIGITS >> 64, np.uint64(_DIGITS & (2**64 - 1))
    floor_high, floor_low = -_DIGITS >> 64, np.uint64(-_DIGITS & (2**64 - 1))
    above: Mask = (high > limit_high) | ((high == limit_high) & (unsigned > limit_low))
    below: Mask = (high < floor_high) | ((high == floor_high) & (unsigned < floor_low))
    return above | below
