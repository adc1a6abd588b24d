"""Compiled loops of the interval join: rows with an interval of time, indexed by key and found by overlap.

Rows of one key form a chain from the newest to the oldest (-1 ends it). A row is a *node*: besides its interval and the
next older row it has a *jump* over several older ones, and the least start and greatest end of the rows up to there.
"""

from typing import NamedTuple

import numpy as np

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints, Mask

NODE_WORDS = 8
"""Words of a node; with one word to spare it fills a cache line."""

_LOW, _HIGH, _OLDER, _JUMP, _DEPTH, _LEAST, _MOST = 0, 1, 2, 3, 4, 5, 6
_WORD, _NEWEST = 0, 1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
_LINE_BITS, _LINE_MASK = np.uint64(2), np.uint64(3)


class Intervals(NamedTuple):
    """Rows with the word of their key and an interval [low, high] of time each."""

    words: Ints
    low: Ints
    high: Ints


@jit
def _place(word: int) -> np.uint64:
    # Four neighbouring numbers stay together, a cache line of the table: keys that are counted up come about in turn.
    mixed = (np.uint64(word) >> _LINE_BITS) * _GOLDEN
    return ((mixed ^ (mixed >> _SHIFT)) << _LINE_BITS) | (np.uint64(word) & _LINE_MASK)


@jit
def index_intervals(rows: Intervals, first: int, table: Ints, nodes: Ints) -> None:
    """Put the rows from ``first`` on into the index.

    ``table`` is int64[a power of two > rows, 2], zeros at first: a word and the number of its newest row plus one.
    ``nodes`` is int64[>= rows, NODE_WORDS], of which this fills in the new rows'.
    """
    words, low, high = rows
    mask = np.uint64(table.shape[0] - 1)
    for i in range(first, words.size):
        place = _place(words[i]) & mask
        while table[place, _NEWEST] != 0 and table[place, _WORD] != words[i]:
            place = (place + np.uint64(1)) & mask
        older = table[place, _NEWEST] - 1
        table[place, _WORD] = words[i]
        table[place, _NEWEST] = i + 1
        # Jumps as in a skew binary random access list: any distance is a logarithmic number of jumps and steps.
        jump, depth = older, 1
        least, most = low[i], high[i]
        if older >= 0:
            over = nodes[older, _JUMP]
            depth = nodes[older, _DEPTH] + 1
            over_depth = nodes[over, _DEPTH] if over >= 0 else 0
            beyond = nodes[over, _JUMP] if over >= 0 else -1
            beyond_depth = nodes[beyond, _DEPTH] if beyond >= 0 else 0
            if over >= 0 and depth - 1 - over_depth == over_depth - beyond_depth:
                jump = beyond
                least = min(least, nodes[older, _LEAST], nodes[over, _LEAST])
                most = max(most, nodes[older, _MOST], nodes[over, _MOST])
        nodes[i, _LOW] = low[i]
        nodes[i, _HIGH] = high[i]
        nodes[i, _OLDER] = older
        nodes[i, _JUMP] = jump
        nodes[i, _DEPTH] = depth
        nodes[i, _LEAST] = least
        nodes[i, _MOST] = most


@jit
def find_overlaps(
    asking: Intervals,
    table: Ints,
    nodes: Ints,
    row: int,
    at: int,
    row_out: Ints,
    found_out: Ints,
) -> tuple[int, int, int]:
    """Write (row, indexed row of its word whose interval overlaps its own) pairs until the outputs are full.

    ``row`` and ``at`` say where to go on: (-1, -1) at first, then what the last call returned. The result is
    (pairs written, row, at); fewer pairs than fit mean that all rows are done.
    """
    words, low, high = asking
    mask = np.uint64(table.shape[0] - 1)
    filled = 0
    while filled < row_out.size:
        while at < 0:
            row += 1
            if row >= words.size:
                return filled, row, -1
            place = _place(words[row]) & mask
            while table[place, _NEWEST] != 0 and table[place, _WORD] != words[row]:
                place = (place + np.uint64(1)) & mask
            at = table[place, _NEWEST] - 1
        if nodes[at, _LEAST] > high[row] or nodes[at, _MOST] < low[row]:
            at = nodes[at, _JUMP]
            continue
        if nodes[at, _LOW] <= high[row] and nodes[at, _HIGH] >= low[row]:
            row_out[filled] = row
            found_out[filled] = at
            filled += 1
        at = nodes[at, _OLDER]
    return filled, row, at


@jit
def mark_first(rows: Ints, marks: Mask, fresh_out: Ints) -> int:
    """Set the marks of rows; write those that had none, each once, to ``fresh_out`` and return how many."""
    filled = 0
    for i in range(rows.size):
        if not marks[rows[i]]:
            marks[rows[i]] = True
            fresh_out[filled] = rows[i]
            filled += 1
    return filled
