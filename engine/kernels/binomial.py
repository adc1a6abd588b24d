"""Compiled exact bounds of a number of rows, of which only those are known that stayed."""

import math

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints

Doubles = NDArray[np.float64]


@jit
def chance_of_at_most(kept: int, rows: int, keep: float) -> float:
    """Return P(Bin(rows, keep) <= kept) for keep in (0, 1)."""
    if kept >= rows:
        return 1.0
    if kept < 0:
        return 0.0
    # From the last term back: these sum to the tail, and the ratio of neighbours is known.
    term = math.exp(
        math.lgamma(rows + 1.0)
        - math.lgamma(kept + 1.0)
        - math.lgamma(rows - kept + 1.0)
        + kept * math.log(keep)
        + (rows - kept) * math.log1p(-keep)
    )
    total = 0.0
    for k in range(kept, -1, -1):
        total += term
        term *= k * (1.0 - keep) / ((rows - k + 1.0) * keep)
    return min(total, 1.0)


@jit
def count_bounds(kept: Ints, keeps: Doubles, tail: float, lows: Doubles, highs: Doubles) -> None:
    """Write the least and greatest number of rows of which kept[i] or more, or fewer, stay with more than this chance.

    Cost is O(kept[i]) for each of some 20 steps, so it is for small numbers.
    """
    for i in range(kept.shape[0]):
        n = kept[i]
        keep = keeps[i]
        low, above = n, n
        step = 1
        while chance_of_at_most(n, above, keep) > tail:
            above += step
            step *= 2
        below = n
        while above - below > 1:
            middle = (above + below) // 2
            if chance_of_at_most(n, middle, keep) > tail:
                below = middle
            else:
                above = middle
        highs[i] = below
        # P(X >= n) = 1 - P(X <= n - 1) grows with the number of rows.
        left, right = n - 1, below
        while right - left > 1:
            low = (left + right) // 2
            if 1.0 - chance_of_at_most(n - 1, low, keep) > tail:
                right = low
            else:
                left = low
        lows[i] = right
