"""Compiled loops of the joins: chains of row ids per key, hash lookup by (window, key), and bounded expansion of pairs.

A *chain* is a list of row ids linked from the newest to the oldest; -1 ends it.
Called by the joins under ``operators/``.
"""

import numpy as np
import numpy.typing as npt

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints, Mask

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(32)


@jit
def link_rows(slots: Ints, first_id: int, heads: Ints, older: Ints) -> None:
    """Put row ``first_id + i`` at the head of the chain of slots[i]; ``heads`` holds ids plus one, 0 for no chain.

    older[i] becomes the id that row i's chain goes on with.
    """
    for i in range(slots.size):
        slot = slots[i]
        older[i] = heads[slot] - 1
        heads[slot] = first_id + i + 1


@jit
def chain_heads(slots: Ints, heads: Ints) -> Ints:
    """Return the first id of each slot's chain, -1 where the slot is -1."""
    first = np.empty(slots.size, np.int64)
    for i in range(slots.size):
        first[i] = heads[slots[i]] - 1 if slots[i] >= 0 else -1
    return first


@jit
def settle_keys(slots: Ints, wanted: Mask, next_row: int, partner: Ints, kinds: Ints) -> None:
    """Let the first row of each slot settle it: partner[slot], 0 before, becomes 1 (not wanted) or the row's id + 2.

    Wanted rows get the ids ``next_row`` and on. kinds[i]: 0 the slot was settled before, 1 not wanted, 2 wanted.
    """
    for i in range(slots.size):
        slot = slots[i]
        if partner[slot] != 0:
            kinds[i] = 0
        elif wanted[i]:
            kinds[i] = 2
            partner[slot] = next_row + 2
            next_row += 1
        else:
            kinds[i] = partner[slot] = 1


@jit
def take_first(slots: Ints, taken: npt.NDArray[np.int8], first: Mask) -> None:
    """Say of each row whether it is the first of its slot; taken[slot], 0 before, becomes 1."""
    for i in range(slots.size):
        first[i] = taken[slots[i]] == 0
        taken[slots[i]] = 1


@jit
def expand_chains(heads: Ints, older: Ints, row: int, at: int, row_out: Ints, id_out: Ints) -> tuple[int, int, int]:
    """Walk the chains that begin at heads[row], row by row, and write (row, id) pairs until the outputs are full.

    ``row`` and ``at`` say where to go on: (-1, -1) at first, then what the last call returned. The result is
    (pairs written, row, at); fewer pairs than fit mean that all chains have been walked.
    """
    filled = 0
    while filled < row_out.size:
        while at < 0:
            row += 1
            if row >= heads.size:
                return filled, row, -1
            at = heads[row]
        row_out[filled] = row
        id_out[filled] = at
        filled += 1
        at = older[at]
    return filled, row, at


@jit
def _place(window: int, key: int) -> np.uint64:
    mixed = (np.uint64(key) ^ (np.uint64(window) * _MULTIPLY)) * _GOLDEN
    return mixed ^ (mixed >> _SHIFT)


@jit
def index_rows(windows: Ints, keys: Ints, table: Ints, older: Ints) -> None:
    """Chain the rows of each (window, key) in ``table``, which is filled with -1 and a power of two in size, > rows.

    table[p] is the newest row of its (window, key); older[i] the row before row i.
    """
    mask = np.uint64(table.size - 1)
    for i in range(keys.size):
        place = _place(windows[i], keys[i]) & mask
        while True:
            newest = table[place]
            if newest < 0 or (keys[newest] == keys[i] and windows[newest] == windows[i]):
                break
            place = (place + np.uint64(1)) & mask
        older[i] = newest
        table[place] = i


@jit
def find_chains(windows: Ints, keys: Ints, table: Ints, table_windows: Ints, table_keys: Ints) -> Ints:
    """Return the first id of the chain that `index_rows` made of each row's (window, key); -1 if there is none."""
    first = np.empty(keys.size, np.int64)
    mask = np.uint64(table.size - 1)
    for i in range(keys.size):
        place = _place(windows[i], keys[i]) & mask
        newest = table[place]
        while newest >= 0 and (table_keys[newest] != keys[i] or table_windows[newest] != windows[i]):
            place = (place + np.uint64(1)) & mask
            newest = table[place]
        first[i] = newest
    return first
