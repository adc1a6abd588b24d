"""Batches that are left for a later check, as little waits in them: a read takes as long for three rows as for thirty.

Called by `sic_shedding` once it is known how much may stay. Pure.
"""

import numpy as np

from penstock.model.columns import Bools, Floats

PART = 10
"""A batch is small whose work is less than this part of what can be done until the next check."""

MOST_MS = 1_000.0
"""No batch is left for longer."""


def left_for_later(work: Floats, waited_ms: Floats, room: float) -> Bools:
    """Return which batches are neither kept nor dropped yet.

    ``work`` of each, in the unit of ``room``, which is what can be done until the next check; ``waited_ms``: how long
    nothing was decided on it. It is none where the others would not fill the room.
    """
    is_small: Bools = (work < room / PART) & (waited_ms < MOST_MS)
    return is_small if work[~is_small].sum() >= room else np.zeros(len(work), np.bool_)
