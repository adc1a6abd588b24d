"""Seeded moments at which a process is struck."""

from dataclasses import dataclass

import numpy as np

AFTER_CHECKPOINT = 0.85
"""The share of kills that wait for a new checkpoint first; the others come at any time after the restart."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment so long after the first new checkpoint of a life, or after its begin."""

    after_checkpoint: bool
    delay_s: float


def draw_moments(kills: int, interval_s: float, rng: np.random.Generator) -> list[Moment]:
    """Return so many moments, each within a checkpoint's interval of what it waits for."""
    after = np.arange(kills) < int(np.ceil(kills * AFTER_CHECKPOINT))
    delays = rng.random(kills) * interval_s
    return [Moment(bool(waits), float(delay)) for waits, delay in zip(rng.permutation(after), delays, strict=True)]
