"""Compiled loops of floating-point accumulators: sums in two doubles, so that order hardly matters.

Called by ``engine/accumulators``; ``slots`` and ``signs`` as in `accumulate`. A compensated sum is
a pair (sum, rest) whose exact total is off by about 2**-104 of the absolute values added.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.accumulate import Signs
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints

Doubles = NDArray[np.float64]

SQUARE_LIMIT = 1e140
"""Values beyond this magnitude have no usable square; `add_squares` sets them aside like
infinities.
"""

_SPLIT = 134217729.0


class DoubleSums(NamedTuple):
    """Compensated sums by group and how many values they are of; NaN, +inf and -inf are counted apart, or in the sums.

    ``nans``, ``ups`` and ``downs`` are empty in the second case.
    """

    sums: Doubles
    rests: Doubles
    counts: Ints
    nans: Ints
    ups: Ints
    downs: Ints


class SquareSums(NamedTuple):
    """Compensated sums of values and of their squares by group; ``odds`` of the ``counts`` have no usable square."""

    sums: Doubles
    sum_rests: Doubles
    squares: Doubles
    square_rests: Doubles
    counts: Ints
    odds: Ints


@jit
def add_doubles(slots: Ints, signs: Signs, values: Doubles, unit: int, into: DoubleSums) -> None:
    """Add signed values; ``unit`` is what one row adds to the count (0 when the values are partial sums)."""
    sums, rests, counts, nans, ups, downs = into
    plain = signs.shape[0] == 0
    apart = nans.shape[0] > 0
    for i in range(slots.shape[0]):
        if slots[i] >= 0:
            slot = np.uint64(slots[i])
            sign = np.int64(1) if plain else np.int64(signs[i])
            counts[slot] += sign * unit
            value = values[i]
            if apart and not math.isfinite(value):
                if math.isnan(value):
                    nans[slot] += sign
                elif value > 0:
                    ups[slot] += sign
                else:
                    downs[slot] += sign
                continue
            value = value if sign > 0 else (-value if sign < 0 else 0.0)
            old = sums[slot]
            new = old + value
            taken = new - old
            sums[slot] = new
            rests[slot] += (old - (new - taken)) + (value - taken)


@jit
def add_squares(slots: Ints, signs: Signs, values: Doubles, into: SquareSums) -> None:
    """Add signed values and their exact squares; what has no usable square is only counted."""
    sums, sum_rests, squares, square_rests, counts, odds = into
    plain = signs.shape[0] == 0
    for i in range(slots.shape[0]):
        if slots[i] >= 0:
            slot = np.uint64(slots[i])
            sign = np.int64(1) if plain else np.int64(signs[i])
            counts[slot] += sign
            value = values[i]
            if not abs(value) <= SQUARE_LIMIT:
                odds[slot] += sign
                continue
            weight = np.float64(sign)
            scaled = _SPLIT * value
            head = scaled - (scaled - value)
            tail = value - head
            square = value * value
            square_error = ((head * head - square) + 2.0 * head * tail) + tail * tail

            value *= weight
            old = sums[slot]
            new = old + value
            taken = new - old
            sums[slot] = new
            sum_rests[slot] += (old - (new - taken)) + (value - taken)

            square *= weight
            old = squares[slot]
            new = old + square
            taken = new - old
            squares[slot] = new
            square_rests[slot] += ((old - (new - taken)) + (square - taken)) + square_error * weight
