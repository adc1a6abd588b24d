"""Ends of the intervals of estimates, from sums over kept rows (docs/design/weights.md 3 and 4).

Written from the formulas and not from the engine's accumulators, as `estimates` is: Spark sums, and what follows from
the sums of a group is computed here, over all groups of a batch. Nothing of the engine's is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.replay.operators.strata_moments import Moments, moments_of_draws

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

MIN_ROWS = 50
"""An interval rests on as many kept rows of one weight."""

LEAST_FREEDOM, CERTIFIED_FREEDOM, CERTIFIED_SKEWNESS = 4.0, 16.0, 1.0
FEW_DIGITS, NO_DIGIT = 1e3, 1e6
"""Ratios of mean and standard deviation from which on higher powers have no digit, and the variance has none."""

GROUP = ("shed", "least", "most")
"""Of all rows of a group below keep 1: their number, and the least and the greatest of their rates."""

SUMS = (
    *("exact", "n", "w", "total"),
    *(f"s{power}" for power in range(4)),
    *(f"t{power}" for power in range(4)),
    *(f"f{power}" for power in range(5)),
)
"""Of the rows that one aggregate counts: those of keep 1, those below it, their weights; the estimated sum of values of
all of them; and over those below it the sums of S, T and F by powers of the value.
"""


@dataclass(frozen=True, slots=True)
class Ends:
    """An interval of each group: NaN where there is none. ``certified``: the kept rows say that it can be trusted."""

    low: Doubles
    high: Doubles
    certified: Flags


@dataclass(frozen=True, slots=True)
class IntervalCall:
    """An aggregate with intervals: its name, its function, and the columns with its sums and with what rows drew."""

    name: str
    function: str
    sums: str
    draws: str | None = None


def ends_of(
    function: str,
    group: dict[str, Doubles],
    sums: dict[str, Doubles],
    confidence: float,
    draws: pa.ListArray | None = None,
) -> Ends:
    """Return the intervals of a count, sum or mean over a sample of rows; ``group`` and ``sums`` as `GROUP`, `SUMS`.

    ``draws``: the rows below keep 1, where their records drew steps by strata.
    """
    with np.errstate(all="ignore"):
        rows = sums["exact"] + sums["w"]
        value, moments = _moments(function, rows, sums)
        if draws is not None:
            moments = moments_of_draws(function, draws, value, rows, sums["n"], moments)
        s2, s3, t3, f4 = moments
        weight = sums["t0"] / sums["s0"]
        effective = np.nan_to_num(sums["s0"] / (weight * (weight + 1.0)) * (1.0 + 1e-9))
        low, high, certified = _hall(value, s2, s3, t3, f4, confidence)
        known = (effective >= MIN_ROWS) & (s2 > 0.0) & np.isfinite(low) & np.isfinite(high)
    if function == "count":
        for at in np.flatnonzero((sums["n"] < MIN_ROWS) & (group["least"] == group["most"]) & (group["shed"] > 0)):
            few = _clopper_pearson(round(float(sums["n"][at])), float(group["least"][at]), (1.0 - confidence) / 2.0)
            low[at], high[at] = few[0] + sums["exact"][at], few[1] + sums["exact"][at]
            known[at] = certified[at] = True
        low = np.maximum(low, sums["exact"] + sums["n"])
    known &= group["shed"] > 0
    return Ends(np.where(known, low, np.nan), np.where(known, high, np.nan), certified & known)


def with_ends(
    aggregates: Sequence[IntervalCall], confidence: float, names: tuple[Callable[[str], str], ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that adds ends to batches of groups; Spark's workers call it.

    ``names`` make those of low, high and certified. The column ``$group`` has the sums of all rows.
    """

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            group = _fields(batch.column("$group"), GROUP)
            result = batch
            for call in aggregates:
                draws = None if call.draws is None else batch.column(call.draws)
                ends = ends_of(call.function, group, _fields(batch.column(call.sums), SUMS), confidence, draws)
                missing = np.isnan(ends.low)
                for of, values in zip(names, (ends.low, ends.high, ends.certified), strict=True):
                    result = result.append_column(of(call.name), pa.array(values, mask=missing))
            yield result

    return add


def _fields(column: pa.Array, names: Sequence[str]) -> dict[str, Doubles]:
    """Return the fields of a column of structs; a sum over no row is 0."""
    values = (column.field(name).fill_null(0.0) for name in names)
    return {name: np.asarray(value, np.float64) for name, value in zip(names, values, strict=True)}


def _moments(function: str, rows: Doubles, sums: dict[str, Doubles]) -> tuple[Doubles, Moments]:
    """Return values and, over errors y of rows, the sums of S y^2, S y^3, T y^3 and F y^4."""
    s, t, f = ([sums[f"{of}{power}"] for power in range(count)] for of, count in (("s", 4), ("t", 4), ("f", 5)))
    if function == "count":
        return rows, (s[0], s[0], t[0], f[0])
    if function == "sum":
        return sums["total"], (s[2], s[3], t[3], f[4])
    mean = sums["total"] / rows
    about = [
        sum(math.comb(power, k) * (-mean) ** (power - k) * of[k] for k in range(power + 1))
        for of, power in ((s, 2), (s, 3), (t, 3), (f, 4))
    ]
    spread, centre = about[0], mean**2 * s[0]
    about[0] = np.where(spread * NO_DIGIT**2 < centre, np.nan, spread)
    blurred = spread * FEW_DIGITS**2 < centre
    higher = [np.where(blurred, np.nan, item) for item in about[1:]]
    return mean, (about[0] / rows**2, higher[0] / rows**3, higher[1] / rows**3, higher[2] / rows**4)


def _hall(
    value: Doubles, s2: Doubles, s3: Doubles, t3: Doubles, f4: Doubles, confidence: float
) -> tuple[Doubles, Doubles, Flags]:
    """Return ends by Hall's transformation against Student's t, and whether they are certified.

    Where the higher moments are no numbers, ends are those of the normal distribution.
    """
    error = np.sqrt(s2)
    a, b, freedom = t3 / error**3, (t3 - s3) / error**3, 2.0 * s2**2 / f4
    usable = np.isfinite(a) & np.isfinite(b) & np.isfinite(freedom)
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    t = np.where(usable, _student(z, np.where(usable, np.maximum(freedom, LEAST_FREEDOM), 1.0)), z)
    # T has the mean -a/2 and the third cumulant b - 3a, of which a cubic takes a sixth away.
    c = np.where(usable, (3.0 * a - b) / 6.0, 0.0)
    shift = np.where(usable, a / 2.0 - c, 0.0)
    ends = []
    for side in (t, -t):
        straight = side - shift
        bent = (np.cbrt(1.0 + 3.0 * c * straight) - 1.0) / np.where(c == 0.0, 1.0, c)
        ends.append(value - error * np.where(np.abs(c) < 1e-9, straight, bent))
    certified = usable & (freedom >= CERTIFIED_FREEDOM) & (np.abs(3.0 * a - b) <= CERTIFIED_SKEWNESS)
    return np.minimum(ends[0], value), np.maximum(ends[1], value), certified


def _student(z: float, freedom: Doubles) -> Doubles:
    """Return the quantile of Student's t by that of the normal (Abramowitz and Stegun 26.7.5)."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return np.asarray(z + sum(term / freedom**power for power, term in enumerate(terms, 1)), np.float64)


@lru_cache(maxsize=4096)
def _clopper_pearson(kept: int, keep: float, tail: float) -> tuple[int, int]:
    """Return between which numbers of rows lie of which so many stay: the exact interval of the binomial distribution.

    Numbers of rows grow one by one, and with them the chance of each number that stays.
    """
    below = np.zeros(kept + 1)
    below[0] = 1.0
    rows = low = 0
    # P(fewer than kept stay) begins at 1 and falls.
    while 1.0 - below[:kept].sum() <= tail and kept:
        below[1:] = below[1:] * (1.0 - keep) + below[:-1] * keep
        below[0] *= 1.0 - keep
        rows += 1
        low = rows
    while True:
        below[1:] = below[1:] * (1.0 - keep) + below[:-1] * keep
        below[0] *= 1.0 - keep
        if below.sum() <= tail:
            return low, rows
        rows += 1
