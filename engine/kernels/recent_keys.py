"""Kernel that finds rows whose key a recent row of the batch had, so that a table is asked for each key about once."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.index_kernels import table_hash
from penstock.state.jit import jit

_32 = np.uint64(32)


@jit
def first_rows(
    words: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    prefix: NDArray[np.int64],
    recent: NDArray[np.int32],
    group_of_row: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> int:
    groups = 0
    width = words.shape[1]
    prefixed = prefix.size > 0
    mask = np.uint64(recent.size - 1)
    recent[:] = -1
    for row in range(hashes.size):
        h = hashes[row]
        if prefixed:
            h = table_hash(h, prefix[row])
        place = h & mask
        group = np.int64(recent[place])
        same = group >= 0
        if same:
            known = rows[group]
            for word in range(width):
                same &= words[known, word] == words[row, word]
            if prefixed:
                same &= prefix[known] == prefix[row]
        if not same:
            group = groups
            rows[group] = row
            groups += 1
            recent[place] = group
        group_of_row[row] = group
    return groups
