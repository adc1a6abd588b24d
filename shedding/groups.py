"""Sums over rows that belong together: a batch's, a query's, a task's (no streaming noun). Called by the shedders."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats

Counts = NDArray[np.integer[Any]]
"""Whole numbers of any width."""


def sum_by(group: Counts, values: Floats, groups: int) -> Floats:
    """Return the sum of the values of each group; 0 for one without any."""
    return np.bincount(group, weights=values, minlength=groups).astype(np.float64, copy=False)


def running_sum(values: Floats, group: Counts) -> Floats:
    """Return what comes before each value in its group; groups lie one after another."""
    before: Floats = np.cumsum(values) - values
    is_first = np.ones(len(group), np.bool_)
    np.not_equal(group[1:], group[:-1], out=is_first[1:])
    begun: Floats = before[is_first][np.cumsum(is_first) - 1]
    return before - begun
