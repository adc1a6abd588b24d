"""The time that an instance takes as a fixed part, a part for each step and one for each row of its segments, online.

cpu = a + c * steps + b1 * rate1 + b2 * rate2 ...: Stream-Economics takes CPU as proportional to rows (equation 8); what
an instance uses anyway, such as for fetching rows that are dropped and for firing windows, then looks as if shedding
could free it. A step has the more rows the busier the loop is, so a loop that has little to do may be busy all the time
with steps of few rows, and takes three times as many in the same time. Recursive least squares, whose uncertainty grows
again by a little with each reading, so that old readings fade.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats

FIXED_STD = 20.0
"""How far the fixed part is expected from 0, percent of a core, where steps are not counted."""

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
    """Return the fit after a reading: percent of a core at so many rows/s by segment, the first the source's own.

    ``steps_per_s``: 0 or NaN where steps are not counted. The first reading is taken as proportional, as in the paper,
    and rows cost alike in all segments; other rates tell what is fixed, what a step costs, and which segment costs
    what. A reading that is not finite or without rows is none.
    """
    if not (np.isfinite(rates).all() and np.isfinite(percent)) or rates[0] <= 0 or percent < 0:
        return fit
    steps = steps_per_s if steps_per_s > 0 else 0.0
    fixed_std = _FIXED_BESIDE_STEPS_STD if steps else FIXED_STD
    prior = np.diag(np.array([fixed_std**2, _STEPS_STD**2] + [_RATE_STD**2] * len(rates)))
    if fit is None or len(fit.cost) != len(rates) + 2:
        unit = float(rates.sum())
        fit = CostFit(unit, steps or 1.0, np.array([0.0, 0.0] + [percent] * len(rates)), prior)
    at = np.concatenate([[1.0, steps / fit.unit_steps], rates / fit.unit])
    spread = fit.uncertainty @ at
    noise = _NOISE + _NOISE_SHARE * percent
    gain = spread / (at @ spread + noise**2)
    # No part is negative: what one would be below 0 the others take.
    cost = np.maximum(fit.cost + gain * (percent - at @ fit.cost), 0.0)
    said = float(at @ cost)
    if said > 0:
        cost = cost * max(0.0, percent / said) if (cost == 0.0).any() else cost
    uncertainty = np.asarray(fit.uncertainty - np.outer(gain, spread) + _DRIFT**2 * prior, np.float64)
    return CostFit(fit.unit, fit.unit_steps, cost, uncertainty)
