"""Kernels of hopping windows: which pane a row falls into, and which panes make up which windows.

A hop is cut into one pane, or into two when the size is no multiple of the hop, so a window is a run of whole panes
and a row is folded once, however many windows cover it (paired panes: never more than two per hop).
"""

from typing import NamedTuple

import numpy as np

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints, Mask


class PaneCells(NamedTuple):
    """Cells of state: the pane of each, ascending, its slot, and its group, which stands for its key."""

    panes: Ints
    slots: Ints
    groups: Ints


class GroupPlaces(NamedTuple):
    """Scratch by group: the window in which it was ``seen`` last, and the ``place`` of its result there."""

    seen: Ints
    place: Ints


INTO, MERGED, RESULT_WINDOW, RESULT_SLOT, PAIR_ROWS = range(5)
"""Rows of the array of pairs: of each pair result and slot, of each result window and one slot of its group."""


@jit
def assign_panes(times_us: Ints, hop_us: int, cut_us: int, offset_us: int, panes: Ints) -> np.int64:
    """Write the pane of every time and return the smallest.

    Hop q is [q * hop + offset, (q + 1) * hop + offset). With cut = 0 it is pane q; otherwise its first ``cut`` us
    are pane 2q and the rest pane 2q + 1.
    """
    start = 0
    end = 0
    pane = 0
    smallest = np.int64(0x7FFFFFFFFFFFFFFF)
    for row in range(len(times_us)):
        time = times_us[row]
        if not start <= time < end:
            shifted = time - offset_us
            hop = shifted // hop_us
            start = hop * hop_us + offset_us
            end = start + hop_us
            pane = hop
            if cut_us > 0:
                pane = 2 * hop
                if time < start + cut_us:
                    end = start + cut_us
                else:
                    pane += 1
                    start += cut_us
            smallest = min(smallest, pane)
        panes[row] = pane
    return smallest


@jit
def count_pairs(
    panes: Ints,
    first: int,
    last: int,
    panes_per_hop: int,
    panes_per_window: int,
    limit: int,
) -> tuple[int, int]:
    """Return (pairs, next window): how many (cell, window) pairs the windows first..next-1 have.

    ``panes`` is the pane of each cell, ascending. Stops after window ``last``, or before ``limit`` is exceeded, but
    not before the first window that has any cell.
    """
    pairs = 0
    window = first
    low = 0
    high = 0
    cells = len(panes)
    while window <= last:
        while low < cells and panes[low] < window * panes_per_hop:
            low += 1
        if low == cells:
            return pairs, last + 1
        reached = panes[low] - panes_per_window + 1
        if window * panes_per_hop < reached:
            window = min(-((-reached) // panes_per_hop), last + 1)
            continue
        high = max(high, low)
        while high < cells and panes[high] < window * panes_per_hop + panes_per_window:
            high += 1
        if pairs > 0 and pairs + high - low > limit:
            return pairs, window
        pairs += high - low
        window += 1
    return pairs, window


@jit
def combine_panes(
    cells: PaneCells, first: int, end: int, panes_per_hop: int, panes_per_window: int, scratch: GroupPlaces, pairs: Ints
) -> int:
    """List the pairs of windows first..end-1 in window order and return how many (window, group) results they make.

    Pair i merges slot pairs[MERGED, i] into result pairs[INTO, i]; result r belongs to window pairs[RESULT_WINDOW, r].
    ``seen`` starts below ``first``.
    """
    panes, slots, groups = cells
    seen, place = scratch
    results = 0
    pair = 0
    window = first
    low = 0
    while window < end:
        while low < len(panes) and panes[low] < window * panes_per_hop:
            low += 1
        if low == len(panes):
            break
        reached = panes[low] - panes_per_window + 1
        if window * panes_per_hop < reached:
            window = min(-((-reached) // panes_per_hop), end)
            continue
        stop = window * panes_per_hop + panes_per_window
        index = low
        while index < len(panes) and panes[index] < stop:
            group = np.uint64(groups[index])
            if seen[group] != window:
                seen[group] = window
                place[group] = results
                pairs[RESULT_WINDOW, results] = window
                pairs[RESULT_SLOT, results] = slots[index]
                results += 1
            pairs[INTO, pair] = place[group]
            pairs[MERGED, pair] = slots[index]
            pair += 1
            index += 1
        window += 1
    return results


@jit
def expand_windows(
    times_us: Ints,
    size_us: int,
    hop_us: int,
    offset_us: int,
    over_until_us: int,
    rows: Ints,
    ends_us: Ints,
    late: Mask,
) -> int:
    """List every (row, window) with an end above ``over_until_us`` and return how many; mark rows without any."""
    count = 0
    for row in range(len(times_us)):
        time = times_us[row]
        start = (time - offset_us) // hop_us * hop_us + offset_us
        end = start + size_us
        end -= (end - time - 1) // hop_us * hop_us
        late[row] = True
        while end <= start + size_us:
            if end > over_until_us:
                rows[count] = row
                ends_us[count] = end
                count += 1
                late[row] = False
            end += hop_us
    return count
