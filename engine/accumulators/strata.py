"""Moments of sums over rows of strata, from sums by the step that their records drew.

Of 64 records of a stratum in a row each drew another step, so the records of one step are a sample of one in 64, and
the k steps that a rate of k/64 keeps are k such samples, alike and with nothing in common. How their sums differ tells
the variance, whatever the rows of a group have to do with strata: of rows that were dropped independently it is the
same as that of Horvitz and Thompson, and less the more evenly a group lies in its strata (random groups; Wolter 2007,
Introduction to Variance Estimation, chapter 2). Sums by step are linear in rows, so they are merged and taken back;
what is to be taken from each, the mean over the steps of a rate, is kept in sums by rate. Pure arithmetic over arrays
with a row for each group.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from penstock.engine.accumulators.intervals import Moments
from penstock.model.keep_rates import STEPS

Doubles = NDArray[np.float64]

LEAST_STEPS = 8
"""The variance of rows at a rate of fewer steps is taken as if they were dropped independently, which is more."""


def scale_of(limit: int) -> float:
    """Return by what values are multiplied at a rate of ``limit`` / `STEPS` in sums whose squares add to a variance."""
    weight = STEPS / limit
    return sqrt((weight * weight - weight) * limit / (limit - 1))


_LIMITS = np.arange(LEAST_STEPS, STEPS)
_ROWS = _LIMITS / np.array([scale_of(limit) for limit in _LIMITS.tolist()])


def rows_drawn(sums: Doubles) -> Doubles:
    """Return how many rows went into sums of rows; the first `STEPS` columns are by step, the others by rate."""
    rows: Doubles = sums[:, STEPS + LEAST_STEPS :] @ _ROWS
    return rows


def limit_of(sums: Doubles) -> Doubles:
    """Return the steps of the least rate of the rows of which these are sums, 64 where there are none."""
    used = sums[:, STEPS:] > 0.0
    return np.where(used.any(axis=1), used.argmax(axis=1), STEPS).astype(np.float64)


def moments_of_draws(sums: Doubles, keep: Doubles, limit: Doubles) -> Moments:
    """Return the moments of an error: ``sums`` are of deviations by step and by rate, ``limit`` steps the least rate.

    ``keep`` is the rate of all rows together.
    """
    by_rate = sums[:, STEPS:]
    # Of each step what its rates have on the average: those of more steps than it.
    expected = by_rate.sum(axis=1, keepdims=True) - np.cumsum(by_rate, axis=1)
    apart = sums[:, :STEPS] - expected
    with np.errstate(all="ignore"):
        s2 = (apart**2).sum(axis=1)
        # One rate of as many steps stands for all of them.
        third = (apart**3).sum(axis=1) * np.sqrt((limit - 1) * limit) / (limit - 2)
        fourth = np.maximum((apart**4).sum(axis=1) - 3.0 * s2**2 * (limit - 1) / (limit * (limit + 1)), 0.0)
        shed = 1.0 - keep
        return Moments(
            s2,
            third * keep / np.sqrt(shed),
            third * np.sqrt(shed),
            fourth + 2.0 * s2**2 / (limit - 1),
        )
