"""Compiled running totals: every cell becomes the merge of the cells of its run up to itself.

Called by ``engine/accumulators``. ``slots`` lists cells in the order of their runs; ``places[i]`` is how many of the
run come before cell i (0: the run begins here).
"""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints

Doubles = NDArray[np.float64]


@jit
def scan_counts(slots: Ints, places: Ints, counts: Ints) -> None:
    """Add up counts."""
    for i in range(slots.size):
        if places[i]:
            counts[slots[i]] += counts[slots[i - 1]]


@jit
def scan_integers(slots: Ints, places: Ints, sums: Ints, wraps: Ints, counts: Ints) -> None:
    """Add up sums that are exact modulo 2**64, with the number of times they wrapped, and their counts."""
    for i in range(slots.size):
        if places[i]:
            slot, before = slots[i], slots[i - 1]
            old = sums[before]
            value = sums[slot]
            new = old + value
            sums[slot] = new
            wraps[slot] += wraps[before]
            counts[slot] += counts[before]
            if ((old ^ new) & (value ^ new)) < 0:
                wraps[slot] += 1 if old >= 0 else -1


@jit
def scan_doubles(slots: Ints, places: Ints, sums: Doubles, rests: Doubles, counts: Ints) -> None:
    """Add up compensated sums, whose rests are no numbers once the sums are not finite, and their counts."""
    for i in range(slots.size):
        if places[i]:
            slot, before = slots[i], slots[i - 1]
            old = sums[before]
            value = sums[slot]
            new = old + value
            taken = new - old
            sums[slot] = new
            rests[slot] += rests[before] + ((old - (new - taken)) + (value - taken))
            counts[slot] += counts[before]


@jit
def scan_least(slots: Ints, places: Ints, firsts: Ints, seconds: Ints, has: Bytes) -> None:
    """Keep the smallest (first, second) so far; ``seconds`` is empty where one word decides."""
    pairs = seconds.size > 0
    for i in range(slots.size):
        if places[i]:
            slot, before = slots[i], slots[i - 1]
            if has[before] and (
                not has[slot]
                or firsts[before] < firsts[slot]
                or (pairs and firsts[before] == firsts[slot] and seconds[before] < seconds[slot])
            ):
                firsts[slot] = firsts[before]
                if pairs:
                    seconds[slot] = seconds[before]
                has[slot] = 1


@jit
def follow_counts(groups: Ints, counts: Ints, changes: Ints) -> None:
    """Replace each change by what its group's count is after it; ``counts`` follows along."""
    for i in range(groups.size):
        counts[groups[i]] += changes[i]
        changes[i] = counts[groups[i]]
