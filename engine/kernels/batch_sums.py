"""Compiled loops of weighted accumulators where groups have many rows: a batch is added up by group, then weighted.

All rows of a batch have one weight, so that powers of values are added up first, a row of ``sums`` for each slot:
how often it was touched, n, and the sums of x to x^4. `settle_sums` adds what was added up to the vectors of
`accumulate_weighted`, once for each of the slots that were ``touched``, and leaves zeros for the next batch. ``slots``
and ``signs`` as in `accumulate`.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.accumulate import Signs
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints

Doubles = NDArray[np.float64]

SUMS_WIDTH = 6


@jit
def sum_rows(slots: Ints, signs: Signs, sums: Doubles, touched: Ints) -> int:
    """Add up n of rows; return how many slots were touched. ``touched`` has room for all."""
    count = 0
    if signs.shape[0] == 0:
        for i in range(slots.shape[0]):
            if slots[i] >= 0:
                slot = np.uint64(slots[i])
                n = sums[slot, 1]
                if n == 0.0:
                    touched[count] = slots[i]
                    count += 1
                sums[slot, 1] = n + 1.0
        return count
    for i in range(slots.shape[0]):
        sign = np.float64(signs[i])
        if slots[i] >= 0 and sign != 0.0:
            slot = np.uint64(slots[i])
            if sums[slot, 0] == 0.0:
                sums[slot, 0] = 1.0
                touched[count] = slots[i]
                count += 1
            sums[slot, 1] += sign
    return count


@jit
def sum_powers(slots: Ints, signs: Signs, values: Doubles, sums: Doubles, touched: Ints) -> int:
    """Add up n and the powers of values; otherwise as `sum_rows`."""
    count = 0
    if signs.shape[0] == 0:
        for i in range(slots.shape[0]):
            if slots[i] >= 0:
                slot = np.uint64(slots[i])
                n = sums[slot, 1]
                if n == 0.0:
                    touched[count] = slots[i]
                    count += 1
                x = values[i]
                square = x * x
                sums[slot, 1] = n + 1.0
                sums[slot, 2] += x
                sums[slot, 3] += square
                sums[slot, 4] += square * x
                sums[slot, 5] += square * square
        return count
    for i in range(slots.shape[0]):
        sign = np.float64(signs[i])
        if slots[i] >= 0 and sign != 0.0:
            slot = np.uint64(slots[i])
            if sums[slot, 0] == 0.0:
                sums[slot, 0] = 1.0
                touched[count] = slots[i]
                count += 1
            x = values[i]
            power = sign * x
            square = x * x
            sums[slot, 1] += sign
            sums[slot, 2] += power
            sums[slot, 3] += power * x
            sums[slot, 4] += power * square
            sums[slot, 5] += power * (square * x)
    return count


@jit
def _add_rows(
    n: float, weight: float, s: float, t: float, f: float, slot: np.uint64, start: int, vectors: Doubles
) -> None:
    """Add n rows of a weight to the moments of rows that begin at ``start``."""
    vectors[slot, start] += n
    vectors[slot, start + 1] += weight * n
    vectors[slot, start + 2] += s * n
    vectors[slot, start + 3] += t * n
    vectors[slot, start + 4] += f * n


@jit
def settle_sums(
    touched: Ints, sums: Doubles, weight: float, of_rows: Ints, of_values: int, counts: Ints, vectors: Doubles
) -> None:
    """Add what was added up of the slots that were touched to their vectors and counts, and leave zeros.

    ``of_rows``: where in a vector moments of rows alone begin, as `add_weighted_rows` adds to them row by row;
    ``of_values``: where those of values do, as `add_weighted_values`; below zero: there are none. ``counts`` may be
    empty.
    """
    s = weight * weight - weight
    t = weight * (weight - 1.0) ** 2
    f = t * (weight - 1.0)
    has_counts = counts.shape[0] > 0
    for k in range(touched.shape[0]):
        slot = np.uint64(touched[k])
        n = sums[slot, 1]
        if has_counts:
            counts[slot] += np.int64(n)
        for place in range(of_rows.shape[0]):
            _add_rows(n, weight, s, t, f, slot, of_rows[place], vectors)
        if of_values >= 0:
            _add_rows(n, weight, s, t, f, slot, of_values, vectors)
            vectors[slot, of_values + 5] += weight * sums[slot, 2]
            for power in range(3):
                value = sums[slot, 2 + power]
                at = of_values + 6 + 3 * power
                vectors[slot, at] += s * value
                vectors[slot, at + 1] += t * value
                vectors[slot, at + 2] += f * value
            vectors[slot, of_values + 15] += f * sums[slot, 5]
        for place in range(SUMS_WIDTH):
            sums[slot, place] = 0.0
