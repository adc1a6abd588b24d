"""The compiled loop of the as-of join: two sides in order of time are walked together. Called by ``asof_join``."""

from typing import NamedTuple

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints


class TimedRows(NamedTuple):
    """Rows of one side in order of time: their times, the slots of their keys (-1: none) and their ids."""

    times_us: Ints
    slots: Ints
    ids: Ints


class LastRows(NamedTuple):
    """The last right row by slot: its id plus one (0: there is none) and its time."""

    newest: Ints
    newest_us: Ints


@jit
def last_before(
    left_rows: TimedRows, right_rows: TimedRows, tolerance_us: int, last: LastRows, found_out: Ints, replaced_out: Ints
) -> int:
    """Write the id of the last right row of each left row's slot that is not newer, -1 if there is none, to found_out.

    Both sides' times ascend; of right rows of one time and slot the last counts. ``last`` follows along. Rows that are
    more than ``tolerance_us`` (negative: no limit) older do not count. Ids that another one took the place of go to
    replaced_out, whose length is that of the right side; returns how many.
    """
    left_times, left_slots, _ = left_rows
    right_times, right_slots, right_ids = right_rows
    newest, newest_us = last
    replaced = 0
    right = 0
    for left in range(left_times.size + 1):
        while right < right_times.size and (left == left_times.size or right_times[right] <= left_times[left]):
            slot = right_slots[right]
            before = newest[slot] - 1
            # A row that was the newest when its state was stored comes again when that is opened.
            if before >= 0 and before != right_ids[right]:
                replaced_out[replaced] = before
                replaced += 1
            newest[slot] = right_ids[right] + 1
            newest_us[slot] = right_times[right]
            right += 1
        if left < left_times.size:
            slot = left_slots[left]
            found_out[left] = -1
            recent = slot >= 0 and (tolerance_us < 0 or newest_us[slot] >= left_times[left] - tolerance_us)
            if recent and newest[slot] != 0:
                found_out[left] = newest[slot] - 1
    return replaced
