"""Compiled loops of top-n over append-only rows: every slot's entries lie in a block, in the order of int64 words.

``entries[e]`` is the words of a row and, last, its id: -1 - i for row i of the batch at hand. Called by
``operators/ranking/top_ranks.py``; blocks are the matter of ``entry_blocks``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.engine.kernels.entry_blocks import (
    CHANGED,
    CHANGED_SLOTS,
    COUNT,
    DEFERRED,
    DEFERRED_ROWS,
    DROPPED_ROWS,
    HEAD_FIELDS,
    LOST,
    LOST_ROWS,
    START,
    STATE,
    TOUCHED,
    TWINS,
    BlockArrays,
    make_room,
)
from penstock.state.kernels.intrinsics import address, inlined, prefetch
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints, Mask

# How many rows ahead the memory of heads, and of the entries these lead to, is asked for.
_FAR, _NEAR = 16, 8


class RankedArrays(NamedTuple):
    """The lists of `rank_rows`: by row and by slot what is an entry now, what is deferred, and what has fallen out."""

    alive: Mask
    changed: Ints
    deferred: Ints
    lost: Ints
    dropped: Ints


@inlined
def _compare(words: Ints, row: int, entries: Ints, entry: int) -> int:
    for word in range(words.shape[0]):
        if words[word, row] < entries[entry, word]:
            return -1
        if words[word, row] > entries[entry, word]:
            return 1
    return 0


@jit
def rank_rows(
    row: int,
    slots: Ints,
    words: Ints,
    limit: int,
    complete: bool,
    shown_end: int,
    blocks: BlockArrays,
    listed: RankedArrays,
) -> int:
    """Put the rows from ``row`` on among the first ``limit`` of their slots; return where to go on, once entries grew.

    words[:, i] are compared. Rows with equal words are equal if ``complete``; else the row that met its like, and all
    of its slot after it, are listed in ``deferred``. ``alive`` marks the rows that are entries now, ``changed`` lists
    their slots. An entry that falls out goes to ``dropped`` or, if its id is below ``shown_end``, is chained in
    ``lost``: (id, place of the slot's row lost before plus one).
    """
    heads, entries, arena, counts = blocks
    alive, changed, deferred, lost, dropped = listed
    width = words.shape[0]
    heads_at, entries_at = address(heads), address(entries)
    for i in range(row, slots.size):
        if i + _FAR < slots.size:
            prefetch(heads_at + 8 * HEAD_FIELDS * slots[i + _FAR])
            prefetch(entries_at + 8 * (width + 1) * heads[slots[i + _NEAR], START])
        slot = slots[i]
        if heads[slot, STATE] & DEFERRED:
            deferred[counts[DEFERRED_ROWS]] = i
            counts[DEFERRED_ROWS] += 1
            continue
        count = heads[slot, COUNT]
        start = heads[slot, START]
        if count == limit and words.shape[0] and words[0, i] > entries[start + count - 1, 0]:
            continue
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if _compare(words, i, entries, start + middle) < 0:
                high = middle
            else:
                low = middle + 1
        if low > 0 and _compare(words, i, entries, start + low - 1) == 0:
            if not complete:
                heads[slot, STATE] |= DEFERRED
                deferred[counts[DEFERRED_ROWS]] = i
                counts[DEFERRED_ROWS] += 1
                continue
            heads[slot, STATE] |= TWINS
        if low == limit:
            continue
        if count == limit:
            count -= 1
            evicted = entries[start + count, width]
            if evicted < 0:
                alive[-1 - evicted] = False
            elif evicted >= shown_end:
                dropped[counts[DROPPED_ROWS]] = evicted
                counts[DROPPED_ROWS] += 1
            else:
                place = counts[LOST_ROWS]
                lost[place, 0] = evicted
                lost[place, 1] = heads[slot, LOST]
                counts[LOST_ROWS] += 1
                heads[slot, LOST] = place + 1
        else:
            if not make_room(slot, count + 1, limit, heads, entries, arena):
                return i
            start = heads[slot, START]
            heads[slot, COUNT] = count + 1
        for entry in range(start + count, start + low, -1):
            for word in range(width + 1):
                entries[entry, word] = entries[entry - 1, word]
        for word in range(width):
            entries[start + low, word] = words[word, i]
        entries[start + low, width] = -1 - i
        alive[i] = True
        if not heads[slot, STATE] & CHANGED:
            heads[slot, STATE] |= CHANGED
            changed[counts[CHANGED_SLOTS]] = slot
            counts[CHANGED_SLOTS] += 1
    return slots.size


@jit
def name_entries(changed: Ints, ids: Ints, blocks: BlockArrays, touched: Ints, count: int) -> int:
    """Give the batch's rows among these slots' entries their ids; list the slots in ``touched``, which has ``count``.

    Returns:
        How many are in ``touched`` now, each slot once.
    """
    heads, entries, _, _ = blocks
    width = entries.shape[1] - 1
    for slot in changed:
        start = heads[slot, START]
        for entry in range(start, start + heads[slot, COUNT]):
            if entries[entry, width] < 0:
                entries[entry, width] = ids[-1 - entries[entry, width]]
        if not heads[slot, STATE] & TOUCHED:
            touched[count] = slot
            count += 1
        heads[slot, STATE] = (heads[slot, STATE] | TOUCHED) & ~CHANGED
    return count


@jit
def list_changes(
    touched: Ints,
    ranked: bool,
    shown_end: int,
    lost: Ints,
    blocks: BlockArrays,
    changes: Ints,
    weights: npt.NDArray[np.int8],
    bounds: Ints,
) -> bool:
    """Write what changed in slots since the last emission: (id, rank) and weight, a slot's retractions first.

    The changes of touched[k] end at bounds[k + 1]. What was shown of a slot are its entries with ids below
    ``shown_end``, then its lost rows, the last lost first. Without ``ranked`` a mere change of rank is none.

    Returns:
        Whether equal rows were seen in some slot: a row may then be retracted and inserted with the same rank.
    """
    heads, entries, _, _ = blocks
    width = entries.shape[1] - 1
    twins = False
    n = 0
    for k in range(touched.size):
        slot = touched[k]
        start, count = heads[slot, START], heads[slot, COUNT]
        kept = 0
        for place in range(count):
            name = entries[start + place, width]
            if name < shown_end:
                kept += 1
                if ranked and kept != place + 1:
                    changes[n, 0], changes[n, 1] = name, kept
                    weights[n] = -1
                    n += 1
        at = heads[slot, LOST]
        while at:
            kept += 1
            changes[n, 0], changes[n, 1] = lost[at - 1, 0], kept
            weights[n] = -1
            n += 1
            at = lost[at - 1, 1]
        kept = 0
        for place in range(count):
            name = entries[start + place, width]
            kept += name < shown_end
            if name >= shown_end or (ranked and kept != place + 1):
                changes[n, 0], changes[n, 1] = name, place + 1
                weights[n] = 1
                n += 1
        bounds[k + 1] = n
        twins |= bool(heads[slot, STATE] & TWINS)
        heads[slot, LOST] = 0
        heads[slot, STATE] &= ~TOUCHED
    return twins


@jit
def text_words(offsets: npt.NDArray[np.int32], data: Bytes, words: Ints) -> None:
    """Write the first 8 bytes of each text as a word whose order is theirs; offsets[i : i + 2] are text i's bounds."""
    for i in range(words.size):
        word = np.uint64(0)
        for byte in range(8):
            at = offsets[i] + byte
            word = word << np.uint64(8)
            if at < offsets[i + 1]:
                word |= np.uint64(data[at])
        words[i] = np.int64(word ^ np.uint64(1 << 63))
