"""The time that an instance takes as a fixed part, a part for each step and one for each row of its segments, online.

cpu = a + c * steps + b1 * rate1 + b2 * rate2 ...: Stream-Economics takes CPU as proportional to rows (equation 8); what
an instance uses anyway, such as for fetching rows that are dropped and for firing windows, then looks as if shedding
could free it. A step has the more rows the busier the loop is, so a loop that has little to do may be busy all the time
with steps of few rows, and takes three times as many in the same time. Recursive least squares, whose uncertainty grows
again by a little with each reading, so that old readings fade.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats

FIXED_STD = 20.0
"""How far the fixed part is expected from 0, percent of a core, where steps are not counted."""

FIXED_MOST = 3.0 * FIXED_STD
"""The most that the fixed part is taken for, percent of a core.

When rows become dearer on a core that is full, fewer of them take as much of it: that looks as if all were fixed and
shedding of no use. Rows that are taken for too dear only make rates settle later.
"""

_FIXED_BESIDE_STEPS_STD = 2.0
_STEPS_STD = 50.0
_RATE_STD = 50.0
_DRIFT = 0.02
"""The share of the first uncertainty, as a standard deviation, that comes back with each reading."""

_NOISE = 1.0
_NOISE_SHARE = 0.01
"""The error of a reading: percent of a core, and the share of it that comes on top."""


@dataclass(frozen=True, slots=True, eq=False)
class CostFit:
    """A fit after some readings, percent of a core.

    ``cost`` is a, c for ``unit_steps`` a second, and b for ``unit`` rows/s of each segment; ``uncertainty`` is their
    covariance.
    """

    unit: float
    unit_steps: float
    cost: Floats
    uncertainty: NDArray[np.float64]

    @property
    def fixed(self) -> float:
        """The fixed part a, percent of a core."""
        return float(self.cost[0])

    def of_steps(self, steps_per_s: float) -> float:
        """Return the part of so many steps a second, percent of a core."""
        return float(self.cost[1]) * steps_per_s / self.unit_steps

    def parts(self, rates: Floats) -> Floats:
        """Return the part of each segment at so many rows/s, percent of a core."""
        return np.asarray(self.cost[2:] * rates / self.unit, np.float64)

    def percent(self, rates: Floats, steps_per_s: float = 0.0) -> float:
        """Return all of it at these rates, percent of a core."""
        return self.fixed + self.of_steps(steps_per_s) + float(self.parts(rates).sum())


def with_reading(fit: CostFit | None, rates: Floats, percent: float, steps_per_s: float = 0.0) -> CostFit | None:
    """Return the fit of one instance after a reading, as `with_readings` does."""
    (after,) = with_readings([fit], rates[np.newaxis], np.array([percent]), np.array([steps_per_s]))
    return after


def with_readings(
    fits: Sequence[CostFit | None], rates: Floats, percent: Floats, steps_per_s: Floats
) -> Sequence[CostFit | None]:
    """Return fits after a reading of each: percent of a core at so many rows/s by segment, the first the source's own.

    ``steps_per_s``: 0 or NaN where steps are not counted. The first reading is taken as proportional, as in the paper,
    and rows cost alike in all segments; other rates tell what is fixed, what a step costs, and which segment costs
    what. A reading that is not finite or without rows is none.
    """
    after = list(fits)
    read = np.flatnonzero(np.isfinite(rates).all(1) & np.isfinite(percent) & (rates[:, 0] > 0) & (percent >= 0))
    if not len(read):
        return after
    rates, percent = rates[read], percent[read]
    steps = np.where(steps_per_s[read] > 0, steps_per_s[read], 0.0)
    priors = _priors(steps > 0, rates.shape[1])
    before = [_begun(fits[row], rates[at], percent[at], steps[at], priors[at]) for at, row in enumerate(read.tolist())]
    unit, unit_steps = np.array([fit.unit for fit in before]), np.array([fit.unit_steps for fit in before])
    # Quicker than stacking hundreds of small arrays.
    cost = np.concatenate([fit.cost for fit in before]).reshape(len(before), -1)
    uncertainty = np.concatenate([fit.uncertainty for fit in before]).reshape(len(before), *priors.shape[1:])
    at = np.column_stack([np.ones(len(read)), steps / unit_steps, rates / unit[:, np.newaxis]])
    spread = np.einsum("nij,nj->ni", uncertainty, at)
    noise = _NOISE + _NOISE_SHARE * percent
    gain = spread / ((at * spread).sum(1) + noise**2)[:, np.newaxis]
    # No part is negative: what one would be below 0 the others take.
    cost = np.maximum(cost + gain * (percent - (at * cost).sum(1))[:, np.newaxis], 0.0)
    said = (at * cost).sum(1)
    scale = np.where((cost == 0.0).any(1) & (said > 0), percent / np.where(said > 0, said, 1.0), 1.0)
    cost = _with_most_fixed(cost * scale[:, np.newaxis], at)
    uncertainty = uncertainty - gain[:, :, np.newaxis] * spread[:, np.newaxis, :] + _DRIFT**2 * priors
    for row, *values in zip(read.tolist(), unit.tolist(), unit_steps.tolist(), cost, uncertainty, strict=True):
        after[row] = CostFit(*values)
    return after


def _priors(has_steps: Bools, segments: int) -> NDArray[np.float64]:
    """Return the first covariance of each instance: that of its fixed part, of its steps, and of each segment."""
    variances = np.full((len(has_steps), segments + 2), _RATE_STD**2)
    variances[:, 0] = np.where(has_steps, _FIXED_BESIDE_STEPS_STD**2, FIXED_STD**2)
    variances[:, 1] = _STEPS_STD**2
    return np.asarray(variances[:, :, np.newaxis] * np.eye(segments + 2), np.float64)


def _begun(
    fit: CostFit | None, rates: Floats, percent: float, steps_per_s: float, prior: NDArray[np.float64]
) -> CostFit:
    """Return a fit of so many segments, a first one if there is none."""
    if fit is not None and len(fit.cost) == len(rates) + 2:
        return fit
    cost = np.array([0.0, 0.0] + [float(percent)] * len(rates))
    return CostFit(float(rates.sum()), float(steps_per_s) or 1.0, cost, prior)


def _with_most_fixed(cost: Floats, at: Floats) -> Floats:
    """Return parts of the same sums whose fixed one is the most there is; rows take the rest, as they cost so far."""
    rest = np.maximum(cost[:, 0] - FIXED_MOST, 0.0)[:, np.newaxis]
    rows = (at[:, 2:] * cost[:, 2:]).sum(1, keepdims=True)
    alike = cost[:, 2:] + rest / at[:, 2:].sum(1, keepdims=True)
    raised = np.where(rows > 0, cost[:, 2:] * (1.0 + rest / np.where(rows > 0, rows, 1.0)), alike)
    return np.hstack([cost[:, :1] - rest, cost[:, 1:2], raised])
