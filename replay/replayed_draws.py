"""The steps that messages drew by strata, drawn again: by the same records, in order, from where dealing began.

Called by `row_sampling` with the messages of one slice, one after the other, as `kafka_slices.cut_at` cuts them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.dataflow.strata_draws import StrataDraws, strata_of_keys
from penstock.model.strata import Strata
from penstock.shedding.offset_sampling import Steps

Ints = NDArray[np.int64]


class ReplayedDraws:
    """Deals steps to messages of one partition; those that are given again have what they had."""

    def __init__(self, seed: int) -> None:
        """Begin with none."""
        self._seed = seed
        self._draws: StrataDraws | None = None
        self._offsets: Ints = np.empty(0, np.int64)
        self._steps: Steps = np.empty(0, np.uint8)

    def steps(self, messages: Messages, since: Ints, strata: Strata, others: Steps) -> Steps:
        """Return the steps of messages that drew them, which were dealt ``since`` an offset, and ``others`` (-1)."""
        offsets, steps = messages.offsets, others.copy()
        last = -1 if not len(self._offsets) else int(self._offsets[-1])
        again = offsets <= last
        steps[again] = self._steps[np.searchsorted(self._offsets, offsets[again])]
        for begin in np.unique(since[(since >= 0) & ~again]).tolist():
            drew = (since == begin) & ~again
            if self._draws is None or self._draws.since != begin:
                self._draws = StrataDraws(self._seed, f"{messages.topic}/{messages.partition}", begin)
            keys = None
            if strata == "key":
                named = None if messages.keys is None else [messages.keys[at] for at in np.flatnonzero(drew).tolist()]
                keys = strata_of_keys(named, int(drew.sum()))
            steps[drew] = self._draws.draw(offsets[drew], keys)
        self._offsets, self._steps = offsets, steps
        return steps
