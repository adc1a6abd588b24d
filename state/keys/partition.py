"""Partitioning of a batch's rows among receivers: one counting sort, no filter per receiver."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import read_only

_1, _32 = np.uint64(1), np.uint64(32)

Rows = NDArray[np.int32]
Owners = NDArray[np.uint8] | NDArray[np.int32]


def partition(hashes: NDArray[np.uint64], owner_of_group: NDArray[np.int32], receivers: int) -> list[Rows]:
    """Return, for each receiver, the numbers of the rows whose key group it owns, ascending."""
    rows = np.empty(len(hashes), np.int32)
    # The loops are apart because stores among the loads of owners would make each wait for the last.
    if receivers == 2:
        second, others = np.empty(len(hashes), np.uint8), np.empty(len(hashes), np.int32)
        _find_owners(read_only(hashes), read_only(owner_of_group.astype(np.uint8)), second)
        count = int(_split(read_only(second), rows, others))
        return [rows[:count], others[: len(hashes) - count]]
    owners = np.empty(len(hashes), np.int32)
    _find_owners(read_only(hashes), read_only(owner_of_group), owners)
    counts = np.bincount(owners, minlength=receivers)
    ends = np.cumsum(counts)
    _sort(read_only(owners), ends - counts, rows)
    return np.split(rows, ends[:-1])


@jit
def _find_owners(hashes: NDArray[np.uint64], owner_of_group: Owners, owners: Owners) -> None:
    """Write who owns the key group of every hash."""
    groups = np.uint64(owner_of_group.size)
    for i in range(hashes.size):
        owners[i] = owner_of_group[((hashes[i] >> _32) * groups) >> _32]


@jit
def _split(second: NDArray[np.uint8], rows: Rows, others: Rows) -> int | np.int64:
    """Deal rows out to receivers 0 and 1 (those of ``second``) without a branch.

    Returns:
        How many receiver 0 gets.
    """
    count = count_others = np.uint64(0)
    for i in range(second.size):
        rows[count] = i
        others[count_others] = i
        owner = np.uint64(second[i])
        count += _1 - owner
        count_others += owner
    return np.int64(count)


@jit
def _sort(owners: NDArray[np.int32], cursor: NDArray[np.int64], rows: Rows) -> None:
    """Sort rows by owner; ``cursor`` says where the rows of each begin."""
    for i in range(owners.size):
        rows[cursor[owners[i]]] = i
        cursor[owners[i]] += 1
