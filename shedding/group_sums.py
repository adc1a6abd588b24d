"""Sums and extremes of figures by group, for the equations over instances, tasks and machines."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats

Counts = NDArray[np.integer[Any]]
"""Whole numbers of any width."""


def total(figures: Floats, group: Counts, groups: int) -> Floats:
    """Return the sum by group, 0 for a group without figures."""
    sums: Floats = np.bincount(group, figures, groups).astype(np.float64, copy=False)
    return sums


def least(figures: Floats, group: Counts, groups: int) -> Floats:
    """Return the smallest by group, infinity for a group without figures."""
    smallest = np.full(groups, np.inf)
    np.minimum.at(smallest, group, figures)
    return smallest


def most(figures: Floats, group: Counts, groups: int) -> Floats:
    """Return the largest by group, minus infinity for a group without figures."""
    largest = np.full(groups, -np.inf)
    np.maximum.at(largest, group, figures)
    return largest


def total_with_means(figures: Floats, group: Counts, groups: int) -> Floats:
    """Return the sum by group, in which a figure that was not measured (NaN) counts as the mean of the others.

    A group without any figure has NaN.
    """
    is_measured = ~np.isnan(figures)
    rows = np.bincount(group, minlength=groups)
    counted = np.bincount(group[is_measured], minlength=groups)
    sums = total(figures[is_measured], group[is_measured], groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counted > 0, sums * rows / counted, np.nan)


def running_sum(values: Floats, group: Counts) -> Floats:
    """Return the sum of the values before each one in its group; groups are contiguous."""
    before: Floats = np.cumsum(values) - values
    is_first = np.ones(len(group), np.bool_)
    np.not_equal(group[1:], group[:-1], out=is_first[1:])
    begun: Floats = before[is_first][np.cumsum(is_first) - 1]
    return before - begun
