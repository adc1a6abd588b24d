"""Lists of slots by prefix, as kernels: a small hash index from prefix to its list, and a heap of prefixes.

Lists are circular and doubly linked, so that any slot leaves in O(1); new slots go to the end. The heap holds every
live prefix and perhaps dead ones, which leave it when they reach its top. `prefix_lists` owns the arrays.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.byte_strings import mix
from penstock.state.kernels.intrinsics import inlined
from penstock.state.kernels.jit import jit

# What `counters` holds: live prefixes, and entries of the heap.
LIVE, HEAP = 0, 1

NOBODY = -1

_1 = np.uint64(1)


class ListArrays(NamedTuple):
    """The lists of one table.

    By slot: ``following`` and ``preceding``. By entry of the index: ``prefixes``, ``heads`` (a slot or NOBODY) and
    ``sizes``. ``heap`` has size 0 where nobody asks for order.
    """

    following: NDArray[np.int32]
    preceding: NDArray[np.int32]
    prefixes: NDArray[np.int64]
    heads: NDArray[np.int32]
    sizes: NDArray[np.int64]
    heap: NDArray[np.int64]


@inlined
def _home(prefix: int, mask: np.uint64) -> np.uint64:
    return np.uint64(mix(np.uint64(prefix)) & mask)


@inlined
def _probe(prefix: int, prefixes: NDArray[np.int64], heads: NDArray[np.int32], mask: np.uint64) -> np.uint64:
    """Return where a prefix stands, or would stand."""
    position = _home(prefix, mask)
    while heads[position] != NOBODY and prefixes[position] != prefix:
        position = (position + _1) & mask
    return position


@jit
def link(
    slots: NDArray[np.int64],
    wanted: NDArray[np.int64],
    lists: ListArrays,
    counters: NDArray[np.int64],
    begin: int,
) -> int:
    """Append slots[i] to the list of the prefix wanted[i], from `begin` on; stop where the index or heap is full.

    Returns:
        The first position not done.
    """
    following, preceding, prefixes, heads, sizes, heap = lists
    mask = np.uint64(heads.size - 1)
    position = np.uint64(0)
    for i in range(begin, slots.size):
        slot = slots[i]
        prefix = wanted[i]
        if i == begin or prefix != wanted[i - 1]:
            position = _probe(prefix, prefixes, heads, mask)
        head = heads[position]
        if head != NOBODY:
            tail = preceding[head]
            following[tail] = slot
            preceding[slot] = tail
            following[slot] = head
            preceding[head] = slot
            sizes[position] += 1
            continue
        if 2 * counters[LIVE] >= heads.size or (heap.size and counters[HEAP] == heap.size):
            return i
        following[slot] = slot
        preceding[slot] = slot
        prefixes[position] = prefix
        heads[position] = slot
        sizes[position] = 1
        counters[LIVE] += 1
        if heap.size:
            child = counters[HEAP]
            counters[HEAP] += 1
            while child > 0 and heap[(child - 1) // 2] > prefix:
                heap[child] = heap[(child - 1) // 2]
                child = (child - 1) // 2
            heap[child] = prefix
    return slots.size


@jit
def unlink(
    slots: NDArray[np.int64],
    wanted: NDArray[np.int64],
    lists: ListArrays,
    counters: NDArray[np.int64],
) -> None:
    """Take every slots[i] out of the list of its prefix wanted[i]; a prefix goes with its last slot."""
    following, preceding, prefixes, heads, sizes, _ = lists
    mask = np.uint64(heads.size - 1)
    position = np.uint64(0)
    is_located = False
    for i in range(slots.size):
        slot = slots[i]
        prefix = wanted[i]
        if not is_located or prefix != wanted[i - 1]:
            position = _home(prefix, mask)
            while prefixes[position] != prefix or heads[position] == NOBODY:
                position = (position + _1) & mask
        is_located = True
        after = following[slot]
        before = preceding[slot]
        following[before] = after
        preceding[after] = before
        sizes[position] -= 1
        if heads[position] == slot:
            heads[position] = after
        if sizes[position]:
            continue
        counters[LIVE] -= 1
        is_located = False
        hole = position
        while True:
            position = (position + _1) & mask
            if heads[position] == NOBODY:
                break
            home = _home(prefixes[position], mask)
            if (position - home) & mask >= (position - hole) & mask:
                prefixes[hole] = prefixes[position]
                heads[hole] = heads[position]
                sizes[hole] = sizes[position]
                hole = position
        heads[hole] = NOBODY


@jit
def enter(
    prefixes: NDArray[np.int64],
    heads: NDArray[np.int32],
    sizes: NDArray[np.int64],
    lists: ListArrays,
) -> None:
    """Enter lists into an index that has none of them."""
    _, _, all_prefixes, all_heads, all_sizes, _ = lists
    mask = np.uint64(all_heads.size - 1)
    for i in range(prefixes.size):
        position = _home(prefixes[i], mask)
        while all_heads[position] != NOBODY:
            position = (position + _1) & mask
        all_prefixes[position] = prefixes[i]
        all_heads[position] = heads[i]
        all_sizes[position] = sizes[i]


@jit
def count(wanted: NDArray[np.int64], lists: ListArrays, counts: NDArray[np.int64]) -> None:
    """Write how many slots each prefix has; 0 where it has none."""
    _, _, prefixes, heads, sizes, _ = lists
    mask = np.uint64(heads.size - 1)
    for i in range(wanted.size):
        position = _probe(wanted[i], prefixes, heads, mask)
        counts[i] = 0 if heads[position] == NOBODY else sizes[position]


@jit
def collect(wanted: NDArray[np.int64], lists: ListArrays, collected: NDArray[np.int64]) -> None:
    """Write the slots of every prefix behind each other, oldest first."""
    following, _, prefixes, heads, _, _ = lists
    mask = np.uint64(heads.size - 1)
    filled = 0
    for i in range(wanted.size):
        position = _probe(wanted[i], prefixes, heads, mask)
        head = heads[position]
        slot = head
        while slot != NOBODY:
            collected[filled] = slot
            filled += 1
            slot = following[slot]
            if slot == head:
                break


@jit
def pop_dead(lists: ListArrays, counters: NDArray[np.int64]) -> None:
    """Take dead prefixes off the top of the heap until a live one is there, or none."""
    _, _, prefixes, heads, _, heap = lists
    mask = np.uint64(heads.size - 1)
    while counters[HEAP]:
        top = heap[0]
        position = _probe(top, prefixes, heads, mask)
        if heads[position] != NOBODY:
            return
        counters[HEAP] -= 1
        last = heap[counters[HEAP]]
        parent = 0
        while True:
            child = 2 * parent + 1
            if child >= counters[HEAP]:
                break
            if child + 1 < counters[HEAP] and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= last:
                break
            heap[parent] = heap[child]
            parent = child
        heap[parent] = last


@jit
def below(bound: int, heap: NDArray[np.int64], counters: NDArray[np.int64], prefixes: NDArray[np.int64]) -> int:
    """Write the heap's prefixes < `bound` to `prefixes`, in no order; return how many.

    Whatever lies under a prefix >= bound is not looked at.
    """
    filled = 0
    if counters[HEAP] and heap[0] < bound:
        prefixes[0] = 0
        filled = 1
    done = 0
    while done < filled:
        parent = prefixes[done]
        prefixes[done] = heap[parent]
        done += 1
        for child in range(2 * parent + 1, min(2 * parent + 3, counters[HEAP])):
            if heap[child] < bound:
                prefixes[filled] = child
                filled += 1
    return filled
