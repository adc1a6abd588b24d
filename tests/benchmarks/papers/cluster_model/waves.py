"""Curves that no evaluation needs: a wave, and bursts around another curve."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.benchmarks.papers.cluster_model.curves import Curve


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
