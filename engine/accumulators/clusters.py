"""Moments of sums over keys from sums by bucket: rows of a key stay or go together, so its total is what varies.

Keys are independent of each other, so the variance is a sum of squares of totals by key. Of keys that are put into
buckets at random, the sum of squares of the buckets' sums around their mean has the same expectation, up to a factor
(random groups; Wolter 2007, Introduction to Variance Estimation, chapter 2), and sums of buckets are linear in rows:
they can be merged and taken back. Pure arithmetic over arrays with a row for each group.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.engine.accumulators.intervals import Moments

Doubles = NDArray[np.float64]


def moments_of_keys(sums: Doubles, keep: Doubles) -> Moments:
    """Return the moments of an error, by `Moments` with keys in place of rows.

    ``sums`` has a column for each bucket, of sqrt(w^2 - w) y over its rows; ``keep`` is their rate, in (0, 1). At
    several rates the variance is that at which totals of one sign vary most. The fourth moment is greater than that of
    keys by what the buckets leave unknown of the variance.
    """
    buckets = sums.shape[1]
    apart = sums - sums.mean(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        s2 = (apart**2).sum(axis=1) * buckets / (buckets - 1)
        third = (apart**3).sum(axis=1) * buckets**2 / ((buckets - 1) * (buckets - 2))
        fourth = np.maximum((apart**4).sum(axis=1) - 3.0 * s2**2 * (buckets - 1) / buckets**2, 0.0)
        # At one rate S = w^2 (1 - keep), T = w^3 (1 - keep)^2 and F = w^4 (1 - keep)^3.
        shed = 1.0 - keep
        return Moments(
            s2,
            third * keep / np.sqrt(shed),
            third * np.sqrt(shed),
            fourth * shed + 2.0 * s2**2 / (buckets - 1),
        )


def keys_in(sums: Doubles) -> Doubles:
    """Return about how many keys are in the buckets, from how many of these are empty (linear counting)."""
    buckets = sums.shape[1]
    filled = np.minimum(np.count_nonzero(sums, axis=1), buckets - 0.5)
    keys: Doubles = -buckets * np.log1p(-filled / buckets)
    return keys
