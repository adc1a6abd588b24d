"""Intervals of estimates from the moments of kept rows, group by group (docs/design/weights.md 3 and 4).

Pure arithmetic over arrays with one entry per group: `estimates` calls it.
"""

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.binomial import count_bounds
from penstock.engine.kernels.interval_ends import Ends, MomentSums, interval_ends, moments_of_means
from penstock.model.max_error import CONFIDENCE
from penstock.state.keys.arrays import Ints, Mask, read_only

Doubles = NDArray[np.float64]

MIN_ROWS = 50
"""Fewer kept rows have no interval, but for counts at one keep rate."""


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
            square = scale * scale
            return Moments(
                self.s2 / square, self.s3 / (square * scale), self.t3 / (square * scale), self.f4 / square**2
            )

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
    count = len(value)
    ends = Ends(np.empty(count), np.empty(count), np.empty(count, np.bool_), np.empty(count, np.bool_))
    sums = MomentSums(*map(read_only, (moments.s2, moments.s3, moments.t3, moments.f4)))
    interval_ends(read_only(value), read_only(rows), float(MIN_ROWS), sums, expansion(confidence), ends)
    return Interval(*ends)


@lru_cache(maxsize=64)
def expansion(confidence: float) -> Doubles:
    """Return what `student` needs for an interval of this confidence, in (0, 1)."""
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return read_only(np.array(terms))


def moments_of_mean(block: Doubles, mean: Doubles, rows: Doubles) -> Moments:
    """Return the moments of the error of a mean over so many rows, linearised, from those of powers of values.

    ``block`` has a row for each group, as `add_weighted_values` makes it.
    """
    sums = MomentSums(*(np.empty(len(mean)) for _ in range(4)))
    moments_of_means(read_only(block), read_only(mean), read_only(rows), sums)
    return Moments(*sums)


def binomial(rows: Ints, keep: Doubles, confidence: float = CONFIDENCE) -> Interval:
    """Return between which numbers of rows lie of which so many were kept, each with chance ``keep`` in (0, 1).

    The exact interval (Clopper and Pearson 1934), for less than `MIN_ROWS` rows; it covers at least ``confidence``.
    """
    low, high = np.empty(len(rows)), np.empty(len(rows))
    count_bounds(read_only(rows), read_only(keep), (1.0 - confidence) / 2.0, low, high)
    all_of_them = np.ones(len(rows), np.bool_)
    return Interval(low, high, all_of_them, all_of_them)
