"""Figures that change with time: rates of sources, foreign load, latencies of services. Called by specs of clusters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Curve(Protocol):
    """A figure at a time."""

    def __call__(self, time_s: float, /) -> float:
        """Return the figure at ``time_s``."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A figure that never changes."""

    value: float

    def __call__(self, time_s: float) -> float:
        """Return it."""
        return self.value


@dataclass(frozen=True, slots=True)
class Steps:
    """Points (time in s, value): each value holds from its time on, the first also before."""

    points: Sequence[tuple[float, float]]

    def __call__(self, time_s: float) -> float:
        """Return the value of the last point that is not later."""
        value = self.points[0][1]
        for at_s, then in self.points:
            if at_s > time_s:
                break
            value = then
        return value


@dataclass(frozen=True, slots=True)
class Lines:
    """Points (time in s, value) joined by straight lines; flat before the first and after the last."""

    points: Sequence[tuple[float, float]]

    def __call__(self, time_s: float) -> float:
        """Return the value on the line."""
        return float(np.interp(time_s, [at for at, _ in self.points], [value for _, value in self.points]))
