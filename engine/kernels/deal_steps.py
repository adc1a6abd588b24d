"""Compiled dealing of steps to the records of strata: each of a stratum's next 64 records gets another step."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

STEPS = 64


@jit
def deal_steps(words: Words, strata: Words, ids: Words, dealt: Words, counts: Bytes, steps: Bytes) -> int:
    """Write the step that each record draws from those its stratum has left; return how many strata are new.

    ``words`` are random bits, ``strata`` names of strata, not 0. ``ids`` is an open table of these, a power of two long
    and never full; beside it are the steps that were ``dealt``, as bits, and how many these are. When all were dealt,
    all are there again.
    """
    room = np.uint64(ids.shape[0] - 1)
    one = np.uint64(1)
    new = 0
    for i in range(words.shape[0]):
        at = strata[i] & room
        while ids[at] != np.uint64(0) and ids[at] != strata[i]:
            at = (at + one) & room
        if ids[at] == np.uint64(0):
            ids[at] = strata[i]
            new += 1
        if counts[at] == STEPS:
            dealt[at], counts[at] = np.uint64(0), np.uint8(0)
        left = np.uint64(STEPS - np.int64(counts[at]))
        place = np.int64(((words[i] >> np.uint64(32)) * left) >> np.uint64(32))
        step = np.uint64(0)
        taken = dealt[at]
        while True:
            if (taken >> step) & one == np.uint64(0):
                if place == 0:
                    break
                place -= 1
            step += one
        dealt[at] = taken | (one << step)
        counts[at] += np.uint8(1)
        steps[i] = np.uint8(step)
    return new


@jit
def move_strata(ids: Words, dealt: Words, counts: Bytes, to_ids: Words, to_dealt: Words, to_counts: Bytes) -> None:
    """Put the strata of a table into another one, which is empty and has room for them."""
    room = np.uint64(to_ids.shape[0] - 1)
    for place in range(ids.shape[0]):
        if ids[place] == np.uint64(0):
            continue
        at = ids[place] & room
        while to_ids[at] != np.uint64(0):
            at = (at + np.uint64(1)) & room
        to_ids[at], to_dealt[at], to_counts[at] = ids[place], dealt[place], counts[place]
