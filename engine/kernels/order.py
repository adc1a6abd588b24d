"""Compiled loops over rows in event-time order; called by ``ordered_rows``, ``count_window`` and ``reduce``."""

import numpy as np

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints, Mask


@jit
def mark_ties(times_us: Ints, groups: Ints, group_count: int) -> Mask:
    """Mark the rows that share their time and group with another; ``times_us`` ascends."""
    tied = np.zeros(times_us.size, np.bool_)
    latest = np.full(group_count, -1, np.int64)
    for i in range(times_us.size):
        before = latest[groups[i]]
        if before >= 0 and times_us[before] == times_us[i]:
            tied[before] = True
            tied[i] = True
        latest[groups[i]] = i
    return tied


@jit
def number_rows(groups: Ints, seen: Ints) -> Ints:
    """Return each row's number within its group; ``seen`` holds how many rows groups had, and is advanced."""
    numbers = np.empty(groups.size, np.int64)
    for i in range(groups.size):
        numbers[i] = seen[groups[i]]
        seen[groups[i]] += 1
    return numbers


@jit
def number_sessions(times_us: Ints, groups: Ints, gap_us: int, lasts_us: Ints, open_: Ints) -> Ints:
    """Return each row's session, numbered from 0 within its group; a row at most ``gap_us`` after the last joins it.

    ``open_`` is 1 for groups that have a session already, its last row at ``lasts_us``: session 0. Both follow along.
    """
    numbers = np.empty(groups.size, np.int64)
    latest = np.zeros(open_.size, np.int64)
    for i in range(groups.size):
        group = groups[i]
        if open_[group] and times_us[i] > lasts_us[group] + gap_us:
            latest[group] += 1
        numbers[i] = latest[group]
        lasts_us[group] = times_us[i]
        open_[group] = 1
    return numbers
