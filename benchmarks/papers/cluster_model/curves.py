"""Figures that change with time: rates of sources, foreign load, latencies of services. Called by specs of clusters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np


class Curve(Protocol):
    """A figure at a time."""

    def __call__(self, time_s: float, /) -> float:
        """Return the figure at ``time_s``."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

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


@dataclass(frozen=True, slots=True)
class Sine:
    """A mean, and a wave around it."""

    mean: float
    amplitude: float
    period_s: float
    phase_s: float = 0.0

    def __call__(self, time_s: float) -> float:
        """Return the wave's value, never below 0."""
        angle = 2 * math.pi * (time_s - self.phase_s) / self.period_s
        return max(0.0, self.mean + self.amplitude * math.sin(angle))


@dataclass(frozen=True, slots=True)
class Bursts:
    """Another curve times lognormal factors of mean 1, a new one every ``each_s``: heavy tails, by a seed."""

    curve: Curve
    sigma: float
    each_s: float
    seed: int

    def __call__(self, time_s: float) -> float:
        """Return the curve's value times the factor of this moment; the same whoever asks, in any order."""
        normal = _normal(self.seed, int(time_s // self.each_s))
        return self.curve(time_s) * math.exp(self.sigma * normal - self.sigma**2 / 2)


@lru_cache(4096)
def _normal(seed: int, number: int) -> float:
    return float(np.random.default_rng((seed, number)).standard_normal())
