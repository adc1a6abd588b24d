"""The time that an instance takes as a fixed part and a part for each row of its segments, fitted online.

cpu = a + b1 * rate1 + b2 * rate2 ...: Stream-Economics takes CPU as proportional to rows (equation 8); what an instance
uses anyway, such as for fetching rows that are dropped and for firing windows, then looks as if shedding could free it.
Recursive least squares, whose uncertainty grows again by a little with each reading, so that old readings fade.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats

FIXED_STD = 20.0
"""How far the fixed part is expected from 0, percent of a core, before anything was read."""

FIXED_MOST = 3.0 * FIXED_STD
"""The most that the fixed part is taken for, percent of a core.

When rows become dearer on a core that is full, fewer of them take as much of it: that looks as if all were fixed and
shedding of no use. Rows that are taken for too dear only make rates settle later.
"""

_RATE_STD = 50.0
_DRIFT = 0.02
"""The share of the first uncertainty, as a standard deviation, that comes back with each reading."""

_NOISE = 1.0
"""The error of a reading, percent of a core."""


@dataclass(frozen=True, slots=True, eq=False)
class CostFit:
    """A fit after some readings: ``cost`` is a, and b for ``unit`` rows/s of each segment, percent of a core.

    ``uncertainty`` is their covariance.
    """

    unit: float
    cost: Floats
    uncertainty: NDArray[np.float64]

    @property
    def fixed(self) -> float:
        """The fixed part a, percent of a core."""
        return float(self.cost[0])

    def parts(self, rates: Floats) -> Floats:
        """Return the part of each segment at so many rows/s, percent of a core."""
        return np.asarray(self.cost[1:] * rates / self.unit, np.float64)

    def percent(self, rates: Floats) -> float:
        """Return all of it at these rates, percent of a core."""
        return self.fixed + float(self.parts(rates).sum())


def with_reading(fit: CostFit | None, rates: Floats, percent: float) -> CostFit | None:
    """Return the fit after a reading: percent of a core at so many rows/s by segment, the first the source's own.

    The first one is taken as proportional, as in the paper, and rows cost alike in all segments; other rates tell what
    is fixed, and which segment costs what. A reading that is not finite or without rows is none.
    """
    if not (np.isfinite(rates).all() and np.isfinite(percent)) or rates[0] <= 0 or percent < 0:
        return fit
    prior = np.diag(np.array([FIXED_STD**2] + [_RATE_STD**2] * len(rates)))
    if fit is None or len(fit.cost) != len(rates) + 1:
        unit = float(rates.sum())
        fit = CostFit(unit, np.array([0.0] + [percent] * len(rates)), prior)
    at = np.concatenate([[1.0], rates / fit.unit])
    spread = fit.uncertainty @ at
    gain = spread / (at @ spread + _NOISE**2)
    # No part is negative: what one would be below 0 the others take.
    cost = np.maximum(fit.cost + gain * (percent - at @ fit.cost), 0.0)
    said = float(at @ cost)
    if said > 0:
        cost = cost * max(0.0, percent / said) if (cost == 0.0).any() else cost
    if cost[0] > FIXED_MOST:
        cost = _with_most_fixed(cost, at)
    return CostFit(fit.unit, cost, np.asarray(fit.uncertainty - np.outer(gain, spread) + _DRIFT**2 * prior, np.float64))


def _with_most_fixed(cost: Floats, at: Floats) -> Floats:
    """Return parts of the same sum whose fixed one is the most there is; rows take the rest, as they cost so far."""
    rows, rest = float(at[1:] @ cost[1:]), float(cost[0]) - FIXED_MOST
    raised = cost[1:] * (1.0 + rest / rows) if rows > 0 else np.full(len(cost) - 1, rest / float(at[1:].sum()))
    return np.concatenate([[FIXED_MOST], raised])
