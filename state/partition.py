"""Rows of one batch dealt out to receivers: no filter per receiver (engine.md section 5)."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.arrays import read_only
from penstock.state.jit import jit

_1, _32 = np.uint64(1), np.uint64(32)

Rows = NDArray[np.int32]


def partition(hashes: NDArray[np.uint64], owner_of_group: NDArray[np.int32], receivers: int) -> list[Rows]:
    """Return, for each receiver, the numbers of the rows whose key group it owns, ascending."""
    hashes, owners = read_only(hashes), read_only(owner_of_group)
    rows = np.empty(len(hashes), np.int32)
    if receivers == 2:
        others = np.empty(len(hashes), np.int32)
        count = int(_split(hashes, owners, rows, others))
        return [rows[:count], others[: len(hashes) - count]]
    counts = np.zeros(receivers, np.int64)
    receiver_of_row = np.empty(len(hashes), np.int32)
    _sort(hashes, owners, receiver_of_row, rows, counts, np.zeros(receivers, np.int64))
    return np.split(rows, np.cumsum(counts)[:-1])


@jit
def _split(hashes: NDArray[np.uint64], owner_of_group: NDArray[np.int32], rows: Rows, others: Rows) -> int | np.int64:
    """Deal rows out to receivers 0 and 1, without a branch or a place in memory that every row waits for.

    Returns:
        How many receiver 0 gets.
    """
    groups = np.uint64(owner_of_group.size)
    first = second = np.uint64(0)
    for i in range(hashes.size):
        rows[first] = i
        others[second] = i
        owner = np.uint64(owner_of_group[((hashes[i] >> _32) * groups) >> _32])
        first += _1 - owner
        second += owner
    return np.int64(first)


@jit
def _sort(
    hashes: NDArray[np.uint64],
    owner_of_group: NDArray[np.int32],
    receiver_of_row: NDArray[np.int32],
    rows: Rows,
    counts: NDArray[np.int64],
    cursor: NDArray[np.int64],
) -> None:
    """Sort rows by receiver, counting how many each gets."""
    groups = np.uint64(owner_of_group.size)
    for i in range(hashes.size):
        receiver = owner_of_group[((hashes[i] >> _32) * groups) >> _32]
        receiver_of_row[i] = receiver
        counts[receiver] += 1
    for receiver in range(1, counts.size):
        cursor[receiver] = cursor[receiver - 1] + counts[receiver - 1]
    for i in range(hashes.size):
        receiver = receiver_of_row[i]
        rows[cursor[receiver]] = i
        cursor[receiver] += 1
