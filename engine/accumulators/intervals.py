"""Intervals of estimates from the moments of kept rows, group by group (docs/design/weights.md 3 and 4).

Pure arithmetic over arrays with one entry per group: `estimates` calls it.
"""

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.binomial import count_bounds
from penstock.model.max_error import CONFIDENCE
from penstock.state.keys.arrays import Ints, Mask, read_only

Doubles = NDArray[np.float64]

MIN_ROWS = 50
"""Fewer kept rows have no interval, but for counts at one keep rate."""

_LEAST_FREEDOM = 4.0
_CERTIFIED_FREEDOM = 16.0
"""The variance is known to about a third where it has so many degrees of freedom."""

_CERTIFIED_SKEWNESS = 1.0
_LARGEST_RATIO = 1e3
"""Beyond this ratio of mean and standard deviation the third and fourth powers have no correct digit left."""


@dataclass(frozen=True, slots=True)
class Moments:
    """The sums over kept rows by which an error is known; y are deviations, w weights.

    With S = w^2 - w, T = w (w - 1)^2 and F = w (w - 1)^3: ``s2`` = sum S y^2, the variance; ``s3`` = sum S y^3,
    ``t3`` = sum T y^3, ``f4`` = sum F y^4.
    """

    s2: Doubles
    s3: Doubles
    t3: Doubles
    f4: Doubles

    def about(self, scale: Doubles) -> "Moments":
        """Return the moments of deviations divided by this."""
        with np.errstate(all="ignore"):
            return Moments(self.s2 / scale**2, self.s3 / scale**3, self.t3 / scale**3, self.f4 / scale**4)

    def where(self, wanted: Mask, others: "Moments") -> "Moments":
        """Return these moments where wanted, else the others."""
        pairs = ((self.s2, others.s2), (self.s3, others.s3), (self.t3, others.t3), (self.f4, others.f4))
        return Moments(*(np.where(wanted, mine, other) for mine, other in pairs))


@dataclass(frozen=True, slots=True)
class Interval:
    """The ends of an interval, where it is ``valid``; ``certified``: the kept rows show no reason to doubt it."""

    low: Doubles
    high: Doubles
    valid: Mask
    certified: Mask

    def where(self, wanted: Mask) -> "Interval":
        """Return the same intervals, valid only there."""
        return Interval(self.low, self.high, self.valid & wanted, self.certified & wanted)


def interval(value: Doubles, rows: Doubles, moments: Moments, confidence: float = CONFIDENCE) -> Interval:
    """Return the interval around an estimate; ``rows``: on how many kept rows of one weight it rests.

    ``confidence``: the share of samples whose interval covers the value for all rows, in (0, 1).

    Hall's transformation of Student's t (Hall 1992, On the removal of skewness by transformation, section 2), with the
    skewness of Poisson samples and as many degrees of freedom as the variance of the variance leaves. Not valid below
    `MIN_ROWS` or where a moment is no number.
    """
    with np.errstate(all="ignore"):
        error = np.sqrt(moments.s2)
        # E T = -a / 2 and the third cumulant of T is b - 3 a, for T = (estimate - truth) / error.
        a = moments.t3 / error**3
        b = (moments.t3 - moments.s3) / error**3
        freedom = 2.0 * moments.s2**2 / moments.f4
        usable = np.isfinite(a) & np.isfinite(b) & np.isfinite(freedom)
        quantile = student(np.where(usable, np.maximum(freedom, _LEAST_FREEDOM), np.inf), confidence)
        skew = np.where(usable, (3.0 * a - b) / 6.0, 0.0)
        shift = np.where(usable, a / 2.0 - skew, 0.0)
        low = value - error * _unskewed(quantile, skew, shift)
        high = value - error * _unskewed(-quantile, skew, shift)
        valid = (rows >= MIN_ROWS) & (moments.s2 > 0.0) & np.isfinite(low) & np.isfinite(high)
        certified = valid & usable & (freedom >= _CERTIFIED_FREEDOM) & (np.abs(6.0 * skew) <= _CERTIFIED_SKEWNESS)
    # The curve of the transformation has its middle at the shift: an estimate lies between the ends all the same.
    return Interval(np.minimum(low, value), np.maximum(high, value), valid, certified)


def student(freedom: Doubles, confidence: float = CONFIDENCE) -> Doubles:
    """Return half the width of a symmetrical interval of Student's t with so many degrees of freedom, 4 or more.

    inf: the normal's. The expansion of Abramowitz and Stegun 26.7.5; at 4 it is off by less than 0.1% for 95%, 0.3% for
    99%, 1.4% for 99.9%, and by less than 0.1% at 10.
    """
    z, first, second, third, fourth = _expansion(confidence)
    quantile: Doubles = z + first / freedom + second / freedom**2 + third / freedom**3 + fourth / freedom**4
    return quantile


@lru_cache(maxsize=64)
def _expansion(confidence: float) -> tuple[float, float, float, float, float]:
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    return (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )


def central(s: tuple[Doubles, ...], t: tuple[Doubles, ...], f: tuple[Doubles, ...], mean: Doubles) -> Moments:
    """Return the moments of x - mean from those of powers of x: s[k] = sum S x^k, up to s[3], t[3] and f[4].

    Where the values hardly differ beside their mean, the third and fourth are no numbers (too few digits are left).
    """
    with np.errstate(all="ignore"):
        m = mean
        s2 = s[2] - 2 * m * s[1] + m**2 * s[0]
        s3 = s[3] - 3 * m * s[2] + 3 * m**2 * s[1] - m**3 * s[0]
        t3 = t[3] - 3 * m * t[2] + 3 * m**2 * t[1] - m**3 * t[0]
        f4 = f[4] - 4 * m * f[3] + 6 * m**2 * f[2] - 4 * m**3 * f[1] + m**4 * f[0]
        digits = s2 * _LARGEST_RATIO**2 >= m**2 * s[0]
        lost = s2 * 1e12 < m**2 * s[0]
    nothing = np.where(digits, 0.0, np.nan)
    return Moments(np.where(lost, np.nan, s2), s3 + nothing, t3 + nothing, f4 + nothing)


def binomial(rows: Ints, keep: Doubles, confidence: float = CONFIDENCE) -> Interval:
    """Return between which numbers of rows lie of which so many were kept, each with chance ``keep`` in (0, 1).

    The exact interval (Clopper and Pearson 1934), for less than `MIN_ROWS` rows; it covers at least ``confidence``.
    """
    low, high = np.empty(len(rows)), np.empty(len(rows))
    count_bounds(read_only(rows), read_only(keep), (1.0 - confidence) / 2.0, low, high)
    all_of_them = np.ones(len(rows), np.bool_)
    return Interval(low, high, all_of_them, all_of_them)


def _unskewed(t: Doubles, skew: Doubles, shift: Doubles) -> Doubles:
    """Solve T + shift + skew T^2 + skew^2 T^3 / 3 = t for T; that is T = t - shift where there is no skew."""
    small = np.abs(skew) < 1e-9
    safe = np.where(small, 1.0, skew)
    return np.where(small, t - shift, (np.cbrt(1.0 + 3.0 * safe * (t - shift)) - 1.0) / safe)
