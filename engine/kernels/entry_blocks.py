"""Compiled loops over blocks: entries of a few words and a row id, those of one slot together and in some order.

``heads[slot]`` says where a slot's block starts, how many entries it has, its chain of lost rows and its state: flags,
and above them its level. A block of level v has room for 2**(v - 1) entries, at most ``limit``; level 0 is no block.
Called by ``operators/ranking/top_blocks.py``.
"""

from typing import NamedTuple

from penstock.state.kernels.intrinsics import inlined
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints

START, COUNT, LOST, STATE, HEAD_FIELDS = 0, 1, 2, 3, 4

TOUCHED, CHANGED, DEFERRED, TWINS = 1, 2, 4, 8
"""Mask: changed since the last emission, changed by this batch, rows wait for an exact order, equal rows were seen."""

_LEVEL = 8
_FLAGS = (1 << _LEVEL) - 1

LEVELS = 64
"""The arena's length: its end in entries, then per level the first free block plus one, 0 for none."""

CHANGED_SLOTS, DEFERRED_ROWS, LOST_ROWS, DROPPED_ROWS, COUNTERS = 0, 1, 2, 3, 4


class BlockArrays(NamedTuple):
    """The arrays of one set of blocks; ``counts`` holds how many slots and rows a call has listed."""

    heads: Ints
    entries: Ints
    arena: Ints
    counts: Ints


@inlined
def _size(level: int, limit: int) -> int:
    return 0 if level == 0 else min(1 << (level - 1), limit)


@inlined
def _allocate(level: int, limit: int, entries: Ints, arena: Ints) -> int:
    """Return where a block of this level may lie; -1: the entries have to grow first."""
    free = arena[level]
    if free:
        arena[level] = entries[free - 1, entries.shape[1] - 1]
        return int(free - 1)
    start = int(arena[0])
    if start + _size(level, limit) > entries.shape[0]:
        return -1
    arena[0] += _size(level, limit)
    return start


@inlined
def _release(start: int, level: int, entries: Ints, arena: Ints) -> None:
    if level:
        entries[start, entries.shape[1] - 1] = arena[level]
        arena[level] = start + 1


@inlined
def make_room(slot: int, count: int, limit: int, heads: Ints, entries: Ints, arena: Ints) -> bool:
    """Give a slot room for ``count`` entries, keeping those it has; False: the entries have to grow first."""
    old = heads[slot, STATE] >> _LEVEL
    level = old
    while _size(level, limit) < count:
        level += 1
    if level == old:
        return True
    start = _allocate(level, limit, entries, arena)
    if start < 0:
        return False
    for entry in range(heads[slot, COUNT]):
        for word in range(entries.shape[1]):
            entries[start + entry, word] = entries[heads[slot, START] + entry, word]
    _release(heads[slot, START], old, entries, arena)
    heads[slot, START] = start
    heads[slot, STATE] = (heads[slot, STATE] & _FLAGS) | (level << _LEVEL)
    return True


@jit
def append_entries(row: int, slots: Ints, words: Ints, ids: Ints, blocks: BlockArrays, changed: Ints) -> int:
    """Put the rows from ``row`` on behind their slots' entries, of which there may be any number.

    Returns:
        Where to go on, once entries grew.
    """
    heads, entries, arena, counts = blocks
    width = words.shape[0]
    for i in range(row, slots.size):
        slot = slots[i]
        count = heads[slot, COUNT]
        if not make_room(slot, count + 1, 1 << 62, heads, entries, arena):
            return i
        at = heads[slot, START] + count
        for word in range(width):
            entries[at, word] = words[word, i]
        entries[at, width] = ids[i]
        heads[slot, COUNT] = count + 1
        if not heads[slot, STATE] & CHANGED:
            heads[slot, STATE] |= CHANGED
            changed[counts[CHANGED_SLOTS]] = slot
            counts[CHANGED_SLOTS] += 1
    return slots.size


@jit
def gather_entries(slots: Ints, blocks: BlockArrays, groups: Ints, gathered: Ints) -> None:
    """Copy the entries of these slots, in order; groups[i] is the position in ``slots`` that entry i belongs to."""
    heads, entries, _, _ = blocks
    n = 0
    for k in range(slots.size):
        start = heads[slots[k], START]
        for entry in range(start, start + heads[slots[k], COUNT]):
            groups[n] = k
            for word in range(entries.shape[1]):
                gathered[n, word] = entries[entry, word]
            n += 1


@jit
def write_entries(k: int, slots: Ints, bounds: Ints, written: Ints, limit: int, blocks: BlockArrays) -> int:
    """Replace the entries of the slots from slots[k] on by written[bounds[k] : bounds[k + 1]].

    A slot without entries gets a fresh head. Mask `DEFERRED` and `CHANGED` end.

    Returns:
        Where to go on, once entries grew.
    """
    heads, entries, arena, _ = blocks
    for at in range(k, slots.size):
        slot = slots[at]
        count = bounds[at + 1] - bounds[at]
        level = heads[slot, STATE] >> _LEVEL
        # A block that is far too large is given back.
        if count == 0 or _size(level, limit) > 4 * count:
            _release(heads[slot, START], level, entries, arena)
            heads[slot, STATE] &= _FLAGS
        heads[slot, COUNT] = 0
        if count == 0:
            heads[slot] = 0
            continue
        if not make_room(slot, count, limit, heads, entries, arena):
            return at
        for entry in range(count):
            for word in range(entries.shape[1]):
                entries[heads[slot, START] + entry, word] = written[bounds[at] + entry, word]
        heads[slot, COUNT] = count
        heads[slot, STATE] &= ~(DEFERRED | CHANGED)
    return slots.size
