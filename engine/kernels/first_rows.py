"""Compiled loop of deduplication: which rows are the first of their key; called by ``operators/ranking/first.py``."""

import numpy as np

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints


@jit
def pass_first(slots: Ints, times_us: Ints, ttl_us: int, seen: Bytes, passed_us: Ints, rows: Ints) -> int:
    """List the rows, in order, that are the first of their slot; return how many.

    A slot's row passes if none has been ``seen``, or if it lies more than ``ttl_us`` after the last that passed, whose
    time is ``passed_us[slot]``. Both follow along. A ``ttl_us`` below 0 means that no slot is new again; then there are
    no times.
    """
    count = 0
    for i in range(slots.size):
        slot = slots[i]
        if seen[slot]:
            if ttl_us < 0 or times_us[i] <= passed_us[slot]:
                continue
            # The difference of two int64 always fits into uint64.
            if np.uint64(times_us[i]) - np.uint64(passed_us[slot]) <= np.uint64(ttl_us):
                continue
        seen[slot] = 1
        if ttl_us >= 0:
            passed_us[slot] = times_us[i]
        rows[count] = i
        count += 1
    return count
