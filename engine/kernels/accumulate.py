"""Compiled loops of exact accumulators: counts and sums of 64-bit and 128-bit integers.

Called by ``engine/accumulators``. Everywhere ``slots[i]`` is the group of row i (below zero: leave
the row out) and ``signs`` says how often the row counts (-1, 0, +1; an empty array: every row
once).
"""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints

Signs = NDArray[np.int8]

_LOWEST = np.int64(-(2**63))


@jit
def add_counts(slots: Ints, signs: Signs, counts: Ints) -> None:
    """Add each row's sign to the count of its group."""
    if signs.shape[0] == 0:
        for i in range(slots.shape[0]):
            if slots[i] >= 0:
                counts[np.uint64(slots[i])] += 1
    else:
        for i in range(slots.shape[0]):
            if slots[i] >= 0:
                counts[np.uint64(slots[i])] += np.int64(signs[i])


@jit
def add_deltas(slots: Ints, deltas: Ints, totals: Ints) -> None:
    """Add deltas[i] to the total of slots[i]; all slots are valid."""
    for i in range(slots.shape[0]):
        totals[np.uint64(slots[i])] += deltas[i]


@jit
def add_integers(slots: Ints, signs: Signs, values: Ints, unit: int, sums: Ints, wraps: Ints, counts: Ints) -> None:
    """Add signed values: the true sum of a group is sums + wraps * 2**64, whatever the order of
    rows.

    ``unit`` is what one row adds to the count (0 when the values are partial sums).
    """
    if signs.shape[0] == 0:
        for i in range(slots.shape[0]):
            if slots[i] >= 0:
                slot = np.uint64(slots[i])
                value = values[i]
                old = sums[slot]
                new = old + value
                sums[slot] = new
                counts[slot] += unit
                if ((old ^ new) & (value ^ new)) < 0:
                    wraps[slot] += 1 if old >= 0 else -1
    else:
        for i in range(slots.shape[0]):
            if slots[i] >= 0:
                slot = np.uint64(slots[i])
                sign = np.int64(signs[i])
                value = values[i] * sign
                old = sums[slot]
                new = old + value
                sums[slot] = new
                counts[slot] += sign * unit
                if ((old ^ new) & (value ^ new)) < 0:
                    wraps[slot] += 1 if old >= 0 else -1
                if sign < 0 and value == _LOWEST:  # minus the lowest integer is 2**63, which wrapped
                    wraps[slot] += 1


@jit
def add_wide(
    slots: Ints,
    signs: Signs,
    words: Ints,
    unit: int,
    lows: Ints,
    highs: Ints,
    wraps: Ints,
    counts: Ints,
) -> None:
    """Add signed 128-bit values (words: low and high of each row in turn); a sum is 128 bits +
    wraps * 2**128.

    A value that is retracted must be above -2**127, as every decimal is.
    """
    plain = signs.shape[0] == 0
    for i in range(slots.shape[0]):
        if slots[i] >= 0:
            slot = np.uint64(slots[i])
            sign = np.int64(1) if plain else np.int64(signs[i])
            low = words[2 * i]
            high = words[2 * i + 1]
            if sign == 0:
                low = np.int64(0)
                high = np.int64(0)
            elif sign < 0:
                high = ~high + np.int64(low == 0)
                low = -low
            new_low = lows[slot] + low
            carry = np.int64(np.uint64(new_low) < np.uint64(low))
            old = highs[slot]
            new = old + high + carry
            lows[slot] = new_low
            highs[slot] = new
            counts[slot] += sign * unit
            if ((old ^ new) & (high ^ new)) < 0:
                wraps[slot] += 1 if old >= 0 else -1
