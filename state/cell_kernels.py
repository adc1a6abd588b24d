"""Writing text cells and bag counts by batches, as kernels."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.index_kernels import GARBAGE, USED
from penstock.state.intrinsics import address
from penstock.state.jit import jit
from penstock.state.kernels import copy_bytes

_TAKEN = -(2**63)


@jit
def store_cells(
    slots: NDArray[np.int64],
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    nulls: NDArray[np.bool_],
    arena: NDArray[np.uint8],
    usage: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Write every string (null: length -1) to its cell: in place if it is not longer, else behind the used bytes.

    The arena must have room for all of them.
    """
    data_at = address(data)
    arena_at = address(arena)
    for i in range(slots.size):
        slot = slots[i]
        held = max(lengths[slot], 0)
        if nulls.size and nulls[i]:
            usage[GARBAGE] += held
            lengths[slot] = -1
            continue
        length = offsets[i + 1] - offsets[i]
        if length <= held:
            usage[GARBAGE] += held - length
        else:
            usage[GARBAGE] += held
            starts[slot] = usage[USED]
            usage[USED] += length
        lengths[slot] = length
        copy_bytes(data_at + offsets[i], arena_at + starts[slot], length)


@jit
def add_counts(
    items: NDArray[np.int64],
    owners: NDArray[np.int64],
    changes: NDArray[np.int64],
    counts: NDArray[np.int64],
    distinct: NDArray[np.int64],
    gone: NDArray[np.int64],
) -> int:
    """Add changes[i] (1 if there are none) to the count of items[i], and keep distinct[owner] = its positive counts.

    Returns:
        How many items, written to `gone`, have a count of zero now; each once.
    """
    for i in range(items.size):
        before = counts[items[i]]
        after = before + (changes[i] if changes.size else 1)
        counts[items[i]] = after
        distinct[owners[i]] += (after > 0) - (before > 0)
    filled = 0
    for i in range(items.size):
        if counts[items[i]] == 0:
            counts[items[i]] = _TAKEN
            gone[filled] = items[i]
            filled += 1
    for i in range(filled):
        counts[gone[i]] = 0
    return filled
