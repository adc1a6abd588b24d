"""Rows of one batch sorted by receiver: one counting sort, no filter per receiver (engine.md section 5)."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.arrays import read_only
from penstock.state.jit import jit

_32 = np.uint64(32)


def partition(
    hashes: NDArray[np.uint64], owner_of_group: NDArray[np.int32], receivers: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort the rows of a batch by the receiver that owns their key group.

    Returns:
        order: int64[n], the rows of receiver 0 first, each receiver's rows in their old order.
        counts: int64[receivers], how many rows each receiver gets.
    """
    order = np.empty(len(hashes), np.int64)
    counts = np.zeros(receivers, np.int64)
    receiver_of_row = np.empty(len(hashes), np.int32)
    cursor = np.zeros(receivers, np.int64)
    _sort(read_only(hashes), read_only(owner_of_group), receiver_of_row, order, counts, cursor)
    return order, counts


@jit
def _sort(
    hashes: NDArray[np.uint64],
    owner_of_group: NDArray[np.int32],
    receiver_of_row: NDArray[np.int32],
    order: NDArray[np.int64],
    counts: NDArray[np.int64],
    cursor: NDArray[np.int64],
) -> None:
    groups = np.uint64(owner_of_group.size)
    for i in range(hashes.size):
        receiver = owner_of_group[((hashes[i] >> _32) * groups) >> _32]
        receiver_of_row[i] = receiver
        counts[receiver] += 1
    for receiver in range(1, counts.size):
        cursor[receiver] = cursor[receiver - 1] + counts[receiver - 1]
    for i in range(hashes.size):
        receiver = receiver_of_row[i]
        order[cursor[receiver]] = i
        cursor[receiver] += 1
