"""Moments of estimates over rows whose records drew steps by strata, row by row (docs/design/weights.md 7).

Written from the formulas and not from the engine's accumulators, as `interval_ends` is: nothing of the engine's is
called.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Moments = tuple[Doubles, Doubles, Doubles, Doubles]
"""Over errors y of rows, the sums of S y^2, S y^3, T y^3 and F y^4."""

_STEPS, _LEAST = 64, 8


def moments_of_draws(
    function: str, draws: pa.ListArray, value: Doubles, rows: Doubles, below: Doubles, independent: Moments
) -> Moments:
    """Return the moments of a count, sum or mean by how the steps that were kept differ.

    ``draws`` are the rows ``below`` keep 1 of each group, ``rows`` how many stand behind its ``value``. Those that are
    ``independent`` hold where a rate kept less than 8 steps, and the least variance is what one row has of theirs.
    """
    items = draws.flatten()
    group = np.repeat(np.arange(len(draws)), draws.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    step = np.asarray(items.field("step"), np.int64)
    kept = np.rint(np.asarray(items.field("keep"), np.float64) * _STEPS).astype(np.int64)
    y = np.asarray(items.field("x"), np.float64)
    if function == "mean":
        y = (y - np.nan_to_num(value)[group]) / rows[group]
    with np.errstate(all="ignore"):
        weight = _STEPS / kept
        share = np.sqrt((weight**2 - weight) * kept / (kept - 1.0)) * y
    apart = np.zeros((len(draws), _STEPS))
    np.add.at(apart, (group, step), share)
    for limit in np.unique(kept[kept >= _LEAST]).tolist():
        mean = np.bincount(group[kept == limit], share[kept == limit] / limit, len(draws))
        apart[:, :limit] -= mean[:, None]
    least = np.full(len(draws), _STEPS)
    np.minimum.at(least, group, kept)
    with np.errstate(all="ignore"):
        k = least.astype(np.float64)
        weights = np.bincount(group, weight, len(draws))
        keep = below / weights
        variance = (apart**2).sum(axis=1)
        third = (apart**3).sum(axis=1) * np.sqrt(k * (k - 1.0)) / (k - 2.0)
        spread = np.maximum((apart**4).sum(axis=1) - 3.0 * variance**2 * (k - 1.0) / (k * (k + 1.0)), 0.0)
        fourth = spread + 2.0 * variance**2 / (k - 1.0)
        drawn = (
            np.maximum(variance, independent[0] / np.maximum(below, 1.0)),
            third * keep / np.sqrt(1.0 - keep),
            third * np.sqrt(1.0 - keep),
            fourth,
        )
    by_steps = (least >= _LEAST) & (least < _STEPS)
    s2, s3, t3, f4 = (np.where(by_steps, mine, other) for mine, other in zip(drawn, independent, strict=True))
    return s2, s3, t3, f4
