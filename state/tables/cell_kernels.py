"""Writing text cells and bag counts by batches, as kernels."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.byte_strings import copy_bytes
from penstock.state.kernels.intrinsics import address
from penstock.state.kernels.jit import jit
from penstock.state.tables.index_kernels import GARBAGE, USED

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
def add_marks(
    items: NDArray[np.int64],
    owners: NDArray[np.int64],
    lanes: NDArray[np.int64],
    marks: NDArray[np.int64],
    distinct: NDArray[np.int64],
    effects: NDArray[np.int8],
) -> None:
    """Set lanes[i] (bits; the lowest if there are none) in the mark of items[i].

    ``distinct[owner]`` follows as the number of its marks, lane by lane; ``effects[i]`` is what row i did to it in the
    lowest lane.
    """
    for i in range(items.size):
        item = items[i]
        fresh = (lanes[i] if lanes.size else 1) & ~marks[item, 0]
        effects[i] = fresh & 1
        if fresh:
            marks[item, 0] |= fresh
            for lane in range(distinct.shape[1]):
                distinct[owners[i], lane] += fresh >> lane & 1


@jit
def add_counts(
    items: NDArray[np.int64],
    owners: NDArray[np.int64],
    changes: NDArray[np.int64],
    lanes: NDArray[np.int64],
    counts: NDArray[np.int64],
    distinct: NDArray[np.int64],
    effects: NDArray[np.int8],
    emptied: NDArray[np.int64],
) -> int:
    """Add changes[i] (1 if there are none) to the counts of items[i] in its lanes (bits; the lowest if there are none).

    ``distinct[owner]`` follows as the number of its positive counts, lane by lane; ``effects[i]`` is what row i did to
    it in the lowest lane.

    Returns:
        How many items, written to `emptied`, have no count but zero now; each once.
    """
    width = counts.shape[1]
    doubtful = False
    for i in range(items.size):
        change = changes[i] if changes.size else 1
        chosen = lanes[i] if lanes.size else 1
        item = items[i]
        owner = owners[i]
        effect = 0
        for lane in range(width):
            if chosen >> lane & 1:
                before = counts[item, lane]
                after = before + change
                counts[item, lane] = after
                turned = (after > 0) - (before > 0)
                distinct[owner, lane] += turned
                if lane == 0:
                    effect = turned
        effects[i] = effect
        doubtful |= change <= 0 or chosen == 0 or counts[item, 0] <= 0
    filled = 0
    if not doubtful:
        return filled
    for i in range(items.size):
        item = items[i]
        empty = True
        for lane in range(width):
            empty &= counts[item, lane] == 0
        if empty:
            counts[item, 0] = _TAKEN
            emptied[filled] = item
            filled += 1
    for i in range(filled):
        counts[emptied[i], 0] = 0
    return filled
