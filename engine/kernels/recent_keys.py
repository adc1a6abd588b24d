"""Kernel that finds rows whose key a recent row of the batch had, so that a table is asked about once per key.

Batches repeat keys, and a small direct-mapped memory of them stays in the first cache, which no table does.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.byte_strings import same_bytes
from penstock.state.kernels.intrinsics import address
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyArrays
from penstock.state.tables.index_kernels import table_hash


@jit
def first_rows(
    keys: KeyArrays,
    prefix: Ints,
    recent: NDArray[np.int32],
    entry_of_row: Ints,
    rows: Ints,
) -> int:
    """List rows such that every row has the key (and prefix, if any) of a listed one; return how many are listed.

    Row i has the key of ``rows[entry_of_row[i]]``. A key is listed again where another displaced it in ``recent``,
    whose length is a power of two.
    """
    words, nulls, data, offsets, hashes = keys
    width = words.shape[1]
    data_at = address(data)
    mask = np.uint64(recent.size - 1)
    recent[:] = -1
    entries = 0
    for row in range(hashes.size):
        h = table_hash(hashes[row], prefix[row]) if prefix.size else hashes[row]
        earlier = np.int64(recent[h & mask])
        recent[h & mask] = row
        same = bool(earlier >= 0)
        if same:
            for word in range(width):
                same &= bool(words[earlier, word] == words[row, word])
            if prefix.size:
                same &= bool(prefix[earlier] == prefix[row])
            if nulls.size:
                same &= bool(nulls[earlier] == nulls[row])
            if same and offsets.size:
                length = offsets[row + 1] - offsets[row]
                same = bool(offsets[earlier + 1] - offsets[earlier] == length) and same_bytes(
                    data_at + offsets[earlier], data_at + offsets[row], length
                )
        if same:
            entry_of_row[row] = entry_of_row[earlier]
        else:
            entry_of_row[row] = entries
            rows[entries] = row
            entries += 1
    return entries
