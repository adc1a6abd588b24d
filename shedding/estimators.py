"""Horvitz-Thompson estimators: aggregates over all rows, and their errors, from the kept rows.

Rows are kept independently (Poisson sampling), each with the weight w = 1 / (product of d on its path). MIN, MAX and
DISTINCT cannot be weighted and have no estimator (docs/design/papers/stream-economics.md 11).
"""

import math
from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats

Z_95 = 1.959963984540054
"""Half the width of a 95% interval, in standard errors."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the variance of its error; [`low`, `high`] is the 95% confidence interval."""

    value: float
    variance: float

    @property
    def low(self) -> float:
        """The lower end of the 95% interval."""
        return self.value - Z_95 * math.sqrt(self.variance)

    @property
    def high(self) -> float:
        """The upper end of the 95% interval."""
        return self.value + Z_95 * math.sqrt(self.variance)


def total(x: Floats, w: Floats) -> Estimate:
    """Return SUM^ = sum w * x, and V^ = sum (w^2 - w) * x^2.

    x: values of kept rows; w: their weights, 1 or more.
    """
    return Estimate(float(w @ x), float((w * w - w) @ (x * x)))


def count(w: Floats) -> Estimate:
    """Return COUNT^ = sum w, and V^ = sum (w^2 - w).

    w: weights of kept rows, 1 or more.
    """
    return total(np.ones(len(w)), w)


def mean(x: Floats, w: Floats) -> Estimate | None:
    """Return MEAN^ = SUM^ / COUNT^, and V^ = sum (w^2 - w) * (x - MEAN^)^2 / COUNT^2; None where no row was kept.

    x: values of kept rows; w: their weights, 1 or more. It is a ratio, whose bias falls with the number of rows.
    """
    if not len(x):
        return None
    rows = float(w.sum())
    value = float(w @ x) / rows
    return Estimate(value, float((w * w - w) @ (x - value) ** 2) / rows**2)


def relative_error(a: float, rows: float, cv: float) -> float:
    """Return about sqrt((1 - a) / (a * N)) * sqrt(1 + cv^2), the relative standard error of a sum.

    a: keep rate in (0, 1]; N: rows before shedding; cv: standard deviation of the values by their mean.
    """
    return math.sqrt((1.0 - a) / (a * rows)) * math.sqrt(1.0 + cv * cv)
