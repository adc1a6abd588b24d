"""The time that an instance takes as a fixed part, a part for each step and one for each row of its segments, online.

cpu = a + c * steps + b1 * rate1 + b2 * rate2 ...: Stream-Economics takes CPU as proportional to rows (equation 8); what
an instance uses anyway, such as for fetching rows that are dropped and for firing windows, then looks as if shedding
could free it. A step has the more rows the busier the loop is, so a loop that has little to do may be busy all the time
with steps of few rows, and takes three times as many in the same time. Recursive least squares, whose uncertainty grows
again by a little with each reading, so that old readings fade.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.task_levels import Indexes

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


@dataclass(frozen=True, slots=True, eq=False)
class CostFits:
    """Fits of as many segments, a row each; those that are not ``known`` have had no reading."""

    unit: Floats
    unit_steps: Floats
    cost: NDArray[np.float64]
    uncertainty: NDArray[np.float64]
    known: Bools

    @classmethod
    def none(cls, count: int, segments: int) -> "CostFits":
        """Return so many rows that have had no reading."""
        width = segments + 2
        ones = np.ones(count)
        return cls(ones, ones, np.zeros((count, width)), np.zeros((count, width, width)), np.zeros(count, np.bool_))

    def at(self, rows: Indexes) -> "CostFits":
        """Return these rows; -1 is one that had no reading."""
        if not len(self.known):
            return CostFits.none(len(rows), self.cost.shape[1] - 2)
        known = (rows >= 0) & self.known[rows]
        return CostFits(self.unit[rows], self.unit_steps[rows], self.cost[rows], self.uncertainty[rows], known)

    def with_rows(self, rows: Indexes, others: "CostFits") -> "CostFits":
        """Return the fits with others in these rows."""
        columns = [(getattr(self, each.name).copy(), getattr(others, each.name)) for each in fields(self)]
        for mine, other in columns:
            mine[rows] = other
        return CostFits(*(mine for mine, _ in columns))

    def row(self, row: int) -> CostFit:
        """Return one that is known."""
        return CostFit(float(self.unit[row]), float(self.unit_steps[row]), self.cost[row], self.uncertainty[row])


def with_reading(fit: CostFit | None, rates: Floats, percent: float, steps_per_s: float = 0.0) -> CostFit | None:
    """Return the fit of one instance after a reading, as `with_readings` does."""
    before = CostFits.none(1, len(rates))
    if fit is not None and len(fit.cost) == len(rates) + 2:
        units = np.array([fit.unit]), np.array([fit.unit_steps])
        before = CostFits(*units, fit.cost[np.newaxis], fit.uncertainty[np.newaxis], np.ones(1, np.bool_))
    after = with_readings(before, rates[np.newaxis], np.array([percent]), np.array([steps_per_s]))
    return fit if after is before else after.row(0)


def with_readings(fits: CostFits, rates: Floats, percent: Floats, steps_per_s: Floats) -> CostFits:
    """Return fits after a reading of each: percent of a core at so many rows/s by segment, the first the source's own.

    ``steps_per_s``: 0 or NaN where steps are not counted. The first reading is taken as proportional, as in the paper,
    and rows cost alike in all segments; other rates tell what is fixed, what a step costs, and which segment costs
    what. A reading that is not finite or without rows is none.
    """
    is_read = np.isfinite(rates).all(1) & np.isfinite(percent) & (rates[:, 0] > 0) & (percent >= 0)
    if not is_read.any():
        return fits
    if not is_read.all():
        read = np.flatnonzero(is_read)
        return fits.with_rows(read, with_readings(fits.at(read), rates[read], percent[read], steps_per_s[read]))
    steps = np.where(steps_per_s > 0, steps_per_s, 0.0)
    priors = _priors(steps > 0, rates.shape[1])
    before = _begun(fits, rates, percent, steps, priors)
    at = np.column_stack([np.ones(len(rates)), steps / before.unit_steps, rates / before.unit[:, np.newaxis]])
    cost, uncertainty = before.cost, before.uncertainty
    spread = np.einsum("nij,nj->ni", uncertainty, at)
    noise = _NOISE + _NOISE_SHARE * percent
    gain = spread / ((at * spread).sum(1) + noise**2)[:, np.newaxis]
    # No part is negative: what one would be below 0 the others take.
    cost = np.maximum(cost + gain * (percent - (at * cost).sum(1))[:, np.newaxis], 0.0)
    said = (at * cost).sum(1)
    scale = np.where((cost == 0.0).any(1) & (said > 0), percent / np.where(said > 0, said, 1.0), 1.0)
    cost = _with_most_fixed(cost * scale[:, np.newaxis], at)
    uncertainty = uncertainty - gain[:, :, np.newaxis] * spread[:, np.newaxis, :] + _DRIFT**2 * priors
    return CostFits(before.unit, before.unit_steps, cost, uncertainty, before.known)


def _priors(has_steps: Bools, segments: int) -> NDArray[np.float64]:
    """Return the first covariance of each instance: that of its fixed part, of its steps, and of each segment."""
    variances = np.full((len(has_steps), segments + 2), _RATE_STD**2)
    variances[:, 0] = np.where(has_steps, _FIXED_BESIDE_STEPS_STD**2, FIXED_STD**2)
    variances[:, 1] = _STEPS_STD**2
    return np.asarray(variances[:, :, np.newaxis] * np.eye(segments + 2), np.float64)


def _begun(
    fits: CostFits, rates: Floats, percent: Floats, steps_per_s: Floats, priors: NDArray[np.float64]
) -> CostFits:
    """Return the fits, first ones where there was none."""
    if fits.known.all():
        return fits
    known, first = fits.known[:, np.newaxis], np.repeat(percent[:, np.newaxis], rates.shape[1] + 2, axis=1)
    first[:, :2] = 0.0
    return CostFits(
        np.where(fits.known, fits.unit, rates.sum(1)),
        np.where(fits.known, fits.unit_steps, np.where(steps_per_s > 0, steps_per_s, 1.0)),
        np.where(known, fits.cost, first),
        np.where(known[:, :, np.newaxis], fits.uncertainty, priors),
        np.ones(len(rates), np.bool_),
    )


def _with_most_fixed(cost: Floats, at: Floats) -> Floats:
    """Return parts of the same sums whose fixed one is the most there is; rows take the rest, as they cost so far."""
    rest = np.maximum(cost[:, 0] - FIXED_MOST, 0.0)[:, np.newaxis]
    rows = (at[:, 2:] * cost[:, 2:]).sum(1, keepdims=True)
    alike = cost[:, 2:] + rest / at[:, 2:].sum(1, keepdims=True)
    raised = np.where(rows > 0, cost[:, 2:] * (1.0 + rest / np.where(rows > 0, rows, 1.0)), alike)
    return np.hstack([cost[:, :1] - rest, cost[:, 1:2], raised])
