"""The time that an instance takes as a fixed part and a part for each row of its segments, fitted online.

cpu = a + b1 * rate1 + b2 * rate2 ...: Stream-Economics takes CPU as proportional to rows (equation 8); what an instance
uses anyway, such as for fetching rows that are dropped and for firing windows, then looks as if shedding could free it.
Recursive least squares, whose uncertainty grows again by a little with each reading, so that old readings fade.
"""

from collections.abc import Sequence
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
    """Return the fit of one instance after a reading, as `with_readings` does."""
    (after,) = with_readings([fit], rates[np.newaxis], np.array([percent]))
    return after


def with_readings(fits: Sequence[CostFit | None], rates: Floats, percent: Floats) -> Sequence[CostFit | None]:
    """Return fits after a reading of each: percent of a core at so many rows/s by segment, the first the source's own.

    The first one is taken as proportional, as in the paper, and rows cost alike in all segments; other rates tell what
    is fixed, and which segment costs what. A reading that is not finite or without rows is none.
    """
    after = list(fits)
    read = np.flatnonzero(np.isfinite(rates).all(1) & np.isfinite(percent) & (rates[:, 0] > 0) & (percent >= 0))
    if not len(read):
        return after
    rates, percent = rates[read], percent[read]
    prior = np.diag(np.array([FIXED_STD**2] + [_RATE_STD**2] * rates.shape[1]))
    before = [_begun(fits[row], rates[at], percent[at], prior) for at, row in enumerate(read.tolist())]
    unit = np.array([fit.unit for fit in before])
    cost, uncertainty = np.stack([fit.cost for fit in before]), np.stack([fit.uncertainty for fit in before])
    at = np.hstack([np.ones((len(read), 1)), rates / unit[:, np.newaxis]])
    spread = np.einsum("nij,nj->ni", uncertainty, at)
    gain = spread / ((at * spread).sum(1) + _NOISE**2)[:, np.newaxis]
    # No part is negative: what one would be below 0 the others take.
    cost = np.maximum(cost + gain * (percent - (at * cost).sum(1))[:, np.newaxis], 0.0)
    said = (at * cost).sum(1)
    scale = np.where((cost == 0.0).any(1) & (said > 0), percent / np.where(said > 0, said, 1.0), 1.0)
    cost = _with_most_fixed(cost * scale[:, np.newaxis], at)
    uncertainty = uncertainty - gain[:, :, np.newaxis] * spread[:, np.newaxis, :] + _DRIFT**2 * prior
    for row, *values in zip(read.tolist(), unit.tolist(), cost, uncertainty, strict=True):
        after[row] = CostFit(*values)
    return after


def _begun(fit: CostFit | None, rates: Floats, percent: float, prior: NDArray[np.float64]) -> CostFit:
    """Return a fit of so many segments, a first one if there is none."""
    if fit is not None and len(fit.cost) == len(rates) + 1:
        return fit
    return CostFit(float(rates.sum()), np.array([0.0] + [float(percent)] * len(rates)), prior)


def _with_most_fixed(cost: Floats, at: Floats) -> Floats:
    """Return parts of the same sums whose fixed one is the most there is; rows take the rest, as they cost so far."""
    rest = np.maximum(cost[:, 0] - FIXED_MOST, 0.0)[:, np.newaxis]
    rows = (at[:, 1:] * cost[:, 1:]).sum(1, keepdims=True)
    alike = cost[:, 1:] + rest / at[:, 1:].sum(1, keepdims=True)
    raised = np.where(rows > 0, cost[:, 1:] * (1.0 + rest / np.where(rows > 0, rows, 1.0)), alike)
    return np.hstack([cost[:, :1] - rest, raised])
