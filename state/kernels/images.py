"""The compiled loop of `image`: numbers of rows in a dump to what they are where it is loaded."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit

Ints = NDArray[np.int64]


@jit
def renumber(old: Ints, kept: Ints, before: int, new: Ints) -> int:
    """Write ``before`` plus the place of every old number in ``kept``, which ascends; numbers below 0 stay.

    Returns:
        -1, or the first position whose number is not in ``kept``.
    """
    first = kept[0] if kept.size else 0
    dense = kept.size > 0 and kept[-1] - first == kept.size - 1
    for i in range(old.size):
        number = old[i]
        if number < 0:
            new[i] = number
            continue
        place = number - first
        if not dense:
            place = 0
            end = kept.size
            while place < end:
                middle = (place + end) // 2
                if kept[middle] < number:
                    place = middle + 1
                else:
                    end = middle
        if place < 0 or place >= kept.size or kept[place] != number:
            return i
        new[i] = before + place
    return -1
