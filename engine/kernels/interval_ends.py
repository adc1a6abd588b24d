"""Compiled arithmetic of intervals, group by group: moments around a mean, and the ends that follow from moments.

Called by ``engine/accumulators``; docs/design/weights.md 4 says what is worked out here.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

COUNT, SUM, MEAN = 0, 1, 2
"""The functions that have an estimate."""

_LEAST_FREEDOM = 4.0
_CERTIFIED_FREEDOM = 16.0
"""The variance is known to about a third where it has so many degrees of freedom."""

_CERTIFIED_SKEWNESS = 1.0
_LARGEST_RATIO = 1e3
"""Beyond this ratio of mean and standard deviation the third and fourth powers have no correct digit left."""


class MomentSums(NamedTuple):
    """By group, with S = w^2 - w, T = w (w - 1)^2 and F = w (w - 1)^3: sums of S y^2, S y^3, T y^3 and F y^4."""

    s2: Doubles
    s3: Doubles
    t3: Doubles
    f4: Doubles


class Ends(NamedTuple):
    """By group the ends of its interval, whether it is one, and whether the kept rows show no reason to doubt it."""

    low: Doubles
    high: Doubles
    valid: Flags
    certified: Flags


class GroupEstimates(NamedTuple):
    """By group an estimate, and its `Ends`."""

    values: Doubles
    low: Doubles
    high: Doubles
    valid: Flags
    certified: Flags


@jit
def student(freedom: float, expansion: Doubles) -> float:
    """Return half the width of a symmetrical interval of Student's t with so many degrees of freedom, 4 or more.

    ``expansion`` are the quantile of the normal distribution and what comes to it by powers of 1 / freedom
    (Abramowitz and Stegun 26.7.5). At 4 it is off by less than 0.1% for 95%, 0.3% for 99%, 1.4% for 99.9%, and by less
    than 0.1% at 10.
    """
    part = 1.0 / freedom
    terms = part * (expansion[1] + part * (expansion[2] + part * (expansion[3] + part * expansion[4])))
    width: float = expansion[0] + terms
    return width


@jit
def _unskewed(t: float, skew: float, shift: float) -> float:
    """Solve T + shift + skew T^2 + skew^2 T^3 / 3 = t for T; that is T = t - shift where there is no skew."""
    if abs(skew) < 1e-9:
        return t - shift
    root: float = np.cbrt(1.0 + 3.0 * skew * (t - shift))
    return (root - 1.0) / skew


@jit
def _moments_of_mean(sums: Doubles, m: float, rows: float) -> tuple[float, float, float, float]:
    """Return the moments of (x - m) / rows from ``sums`` of powers of x, as `add_weighted_values` places them.

    Where values hardly differ beside their mean, the third and fourth are no numbers: too few digits are left.
    """
    if rows == 0.0:
        return math.nan, math.nan, math.nan, math.nan
    m2, square = m * m, rows * rows
    s0, s1, s2 = sums[2], sums[6], sums[9]
    around = s2 - 2.0 * m * s1 + m2 * s0
    variance = math.nan if around * 1e12 < m2 * s0 else around / square
    if not around * _LARGEST_RATIO**2 >= m2 * s0:
        return variance, math.nan, math.nan, math.nan
    m3, m4, cube = m2 * m, m2 * m2, square * rows
    s_cubes = sums[12] - 3.0 * m * s2 + 3.0 * m2 * s1 - m3 * s0
    t_cubes = sums[13] - 3.0 * m * sums[10] + 3.0 * m2 * sums[7] - m3 * sums[3]
    f_fourths = sums[15] - 4.0 * m * sums[14] + 6.0 * m2 * sums[11] - 4.0 * m3 * sums[8] + m4 * sums[4]
    return variance, s_cubes / cube, t_cubes / cube, f_fourths / (square * square)


@jit
def _ends(
    value: float, moments: tuple[float, float, float, float], expansion: Doubles
) -> tuple[float, float, bool, bool]:
    """Return low, high, whether that is an interval, and whether the kept rows show no reason to doubt it."""
    variance, s3, t3, f4 = moments
    if not variance > 0.0:
        return value, value, False, False
    error = math.sqrt(variance)
    cube = error * variance
    # E T = -a / 2 and the third cumulant of T is b - 3 a, for T = (estimate - truth) / error.
    a = t3 / cube if cube > 0.0 else math.nan
    b = (t3 - s3) / cube if cube > 0.0 else math.nan
    freedom = 2.0 * variance * variance / f4 if f4 != 0.0 else math.inf
    usable = math.isfinite(a) and math.isfinite(b) and math.isfinite(freedom)
    quantile, skew, shift = expansion[0], 0.0, 0.0
    if usable:
        quantile = student(max(freedom, _LEAST_FREEDOM), expansion)
        skew = (3.0 * a - b) / 6.0
        shift = a / 2.0 - skew
    low = value - error * _unskewed(quantile, skew, shift)
    high = value - error * _unskewed(-quantile, skew, shift)
    if not (math.isfinite(low) and math.isfinite(high)):
        return value, value, False, False
    certified = usable and freedom >= _CERTIFIED_FREEDOM and abs(6.0 * skew) <= _CERTIFIED_SKEWNESS
    # The curve of the transformation has its middle at the shift: an estimate lies between the ends all the same.
    return min(low, value), max(high, value), True, certified


@jit
def moments_of_means(block: Doubles, means: Doubles, rows: Doubles, into: MomentSums) -> None:
    """Write the moments of (x - mean) / rows, a row of ``block`` a group; NaN where there are too few digits."""
    for i in range(means.shape[0]):
        into.s2[i], into.s3[i], into.t3[i], into.f4[i] = _moments_of_mean(block[i], means[i], rows[i])


@jit
def interval_ends(
    values: Doubles, rows: Doubles, least_rows: float, moments: MomentSums, expansion: Doubles, into: Ends
) -> None:
    """Write the intervals around estimates, that of a group of fewer than ``least_rows`` rows as no interval.

    ``expansion``: see `student`.
    """
    for i in range(values.shape[0]):
        known = moments.s2[i], moments.s3[i], moments.t3[i], moments.f4[i]
        low, high, valid, certified = _ends(values[i], known, expansion)
        enough = rows[i] >= least_rows
        into.low[i], into.high[i], into.valid[i], into.certified[i] = low, high, valid and enough, certified and enough


@jit
def estimate_groups(
    function: int,
    block: Doubles,
    totals: Doubles,
    counts: Ints,
    least_rows: float,
    expansion: Doubles,
    into: GroupEstimates,
) -> None:
    """Write estimates of `COUNT`, `SUM` or `MEAN` and their intervals, a row of ``block`` a group.

    ``totals`` and ``counts`` are those of its rows of keep 1. Rows of several weights count as so many of one weight as
    give as much variance.
    """
    for i in range(counts.shape[0]):
        sums = block[i]
        rows = counts[i] + sums[1]
        s, t, f = sums[2], sums[3], sums[4]
        if function == COUNT:
            value, moments = rows, (s, s, t, f)
        elif function == SUM:
            value, moments = totals[i] + sums[5], (sums[9], sums[12], sums[13], sums[15])
        else:
            value = (totals[i] + sums[5]) / rows if rows != 0.0 else math.nan
            moments = _moments_of_mean(sums, value, rows)
        low, high, valid, certified = _ends(value, moments, expansion)
        mean = t / s if s != 0.0 else 0.0
        enough = mean > 0.0 and s / (mean * (mean + 1.0)) * (1.0 + 1e-9) >= least_rows
        into.values[i], into.low[i], into.high[i] = value, low, high
        into.valid[i], into.certified[i] = valid and enough, certified and enough


@jit
def accuracies(rows: Ints, vectors: Doubles, missing: int, digits: float, shares: Doubles) -> None:
    """Write the share of rows that took part, times the mean accuracy of those that are results themselves.

    ``vectors`` begin with n and the sum of weights; from ``missing`` on is what `add_accuracies` adds up. Shares are
    rounded to one in ``digits``.
    """
    for i in range(rows.shape[0]):
        count = np.float64(max(rows[i], 1))
        n, share = vectors[i, 0], 1.0
        if n > 0.0:
            whole = count - n + vectors[i, 1]
            share = count / whole if whole != 0.0 else 1.0
        if vectors[i, missing + 1] > 0.0:
            share *= 1.0 - vectors[i, missing] / count
        shares[i] = np.rint(min(max(share, 0.0), 1.0) * digits) / digits
