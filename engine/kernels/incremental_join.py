"""Compiled loops of the incremental join: signed counts, chains that lose rows, and pairs as often as they are there.

Chains are those of ``kernels/join.py``, linked both ways. Called by ``operators/incremental_join*.py``.
"""

from typing import NamedTuple

import numpy as np

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints


@jit
def add_counts(slots: Ints, added: Ints, counts: Ints, place: Ints) -> tuple[Ints, Ints, Ints]:
    """Add ``added[i]`` to the count of slots[i] (-1: none), which may become negative.

    ``place`` is zero for every slot, before and after. The result lists every slot once, in order of first appearance:
    (slot, its first row, its count before).
    """
    distinct = np.empty(slots.size, np.int64)
    first = np.empty(slots.size, np.int64)
    before = np.empty(slots.size, np.int64)
    count = 0
    for i in range(slots.size):
        slot = slots[i]
        if slot < 0:
            continue
        if place[slot] == 0:
            place[slot] = 1
            distinct[count] = slot
            first[count] = i
            before[count] = counts[slot]
            count += 1
        counts[slot] += added[i]
    for i in range(count):
        place[distinct[i]] = 0
    return distinct[:count], first[:count], before[:count]


@jit
def link_both(nodes: Ints, slots: Ints, heads: Ints, older: Ints, newer: Ints) -> None:
    """Put nodes[i] at the head of the chain of slots[i] (-1: none); ``heads`` holds nodes plus one, 0 for no chain."""
    for i in range(nodes.size):
        slot = slots[i]
        if slot < 0:
            continue
        node, head = nodes[i], heads[slot] - 1
        older[node] = head
        newer[node] = -1
        if head >= 0:
            newer[head] = node
        heads[slot] = node + 1


@jit
def unlink(nodes: Ints, slots: Ints, heads: Ints, older: Ints, newer: Ints) -> None:
    """Take nodes[i] out of the chain of slots[i] (-1: it is in none)."""
    for i in range(nodes.size):
        slot = slots[i]
        if slot < 0:
            continue
        before, after = older[nodes[i]], newer[nodes[i]]
        if after >= 0:
            older[after] = before
        else:
            heads[slot] = before + 1
        if before >= 0:
            newer[before] = after


class NodeChains(NamedTuple):
    """Chains of nodes: the next older node of each (-1: it is the last), and its count (empty: all count one)."""

    older: Ints
    counts: Ints


class CopyPosition(NamedTuple):
    """A place between two pairs: the item, the node its chain has come to, and how many copies of the pair are left."""

    item: int = -1
    at: int = -1
    left: int = 0


@jit
def expand_copies(
    heads: Ints, copies: Ints, chains: NodeChains, position: CopyPosition, item_out: Ints, node_out: Ints
) -> tuple[int, CopyPosition]:
    """Write (item, node) for every node of the chain that begins at heads[item], until the outputs are full.

    A pair is written copies[item] times what the node counts, none if that is negative. An item without chain (-1) is
    written copies[item] times with node -1. The result is how many pairs were written and where to go on; fewer pairs
    than fit mean that this was all.
    """
    older, counts = chains
    item, at, left = position
    filled = 0
    while filled < item_out.size:
        while left <= 0:
            if at >= 0:
                at = older[at]
            if at < 0:
                item += 1
                if item >= heads.size:
                    return filled, CopyPosition(item, -1, 0)
                at = heads[item]
            left = copies[item]
            if at >= 0 and counts.size:
                left *= max(counts[at], 0)
        written = min(left, item_out.size - filled)
        for place in range(filled, filled + written):
            item_out[place] = item
            node_out[place] = at
        filled += written
        left -= written
    return filled, CopyPosition(item, at, left)
