"""Kernels of updating results: which slots a batch touches for the first time, and which changes cancel."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints


@jit
def mark_touched(slots: Ints, marks: Bytes, touched: Ints) -> int:
    """Mark every slot (-1: none); list those not marked before, in order, and return how many."""
    count = 0
    for row in range(len(slots)):
        slot = slots[row]
        if slot >= 0 and marks[slot] == 0:
            marks[slot] = 1
            touched[count] = slot
            count += 1
    return count


@jit
def remaining_changes(
    groups: Ints,
    weights: NDArray[np.int8],
    net: Ints,
    remaining: Ints,
) -> int:
    """List the rows left when +1 and -1 of one group cancel: retractions first; return how many.

    ``net`` has a zero for every group.
    """
    for row in range(len(groups)):
        net[groups[row]] += weights[row]
    count = 0
    for row in range(len(groups)):
        if weights[row] < 0 and net[groups[row]] < 0:
            net[groups[row]] += 1
            remaining[count] = row
            count += 1
    for row in range(len(groups)):
        if weights[row] > 0 and net[groups[row]] > 0:
            net[groups[row]] -= 1
            remaining[count] = row
            count += 1
    return count
