"""What the rows of a query say of their errors: half the interval by the value, freed from the keep rate. Pure.

The relative half-width r of an estimate over rows kept at rate k is u * sqrt((1 - k) / k), since the variance of a
Horvitz-Thompson total is (1 - k) / k times a sum over all rows. u, its **unit error**, is that at k = 1/2 and says what
r is at any other rate. Sinks count rows by u; `error_control` reads the counts of a whole job.
"""

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from penstock.model.columns import Floats

BUCKETS = 128
"""Unit errors are counted in so many buckets of equal ratio."""

LEAST, MOST = 1e-4, 1e4
"""The unit errors of the first and of the last bucket end here; what lies beyond is counted in them."""

_STEP = (MOST / LEAST) ** (1.0 / BUCKETS)
_UNKNOWN, _UNKNOWN_KEEP = BUCKETS, BUCKETS + 1
FIGURES = BUCKETS + 2
"""The length of a vector of counts."""


def relative_half_widths(value: Floats, low: Floats, high: Floats) -> Floats:
    """Return half of each interval by its value, both without sign; inf where there is no interval (NaN), or no value.

    An interval without width has 0, whatever its value.
    """
    with np.errstate(all="ignore"):
        half = (high - low) / 2.0
        ratio = np.where(half == 0.0, 0.0, half / np.abs(value))
    return np.where(np.isnan(ratio), np.inf, ratio)


def unit_errors(half_width: Floats, keep: Floats) -> Floats:
    """Return u of relative half-widths that were made at these keep rates, which are in (0, 1)."""
    return np.asarray(half_width * np.sqrt(keep / (1.0 - keep)), np.float64)


def half_width_at(unit_error: float, keep: float) -> float:
    """Return the relative half-width of a row of this unit error at a keep rate in (0, 1]."""
    return float(unit_error * np.sqrt((1.0 - keep) / keep))


@dataclass(frozen=True, slots=True, eq=False)
class ErrorCounts:
    """Counts of rows by unit error, and of those that have no interval with the sum of their keep rates.

    All of it is a vector of `FIGURES` doubles, linear in rows: counts of several sinks and times are added.
    """

    figures: Floats = field(default_factory=lambda: np.zeros(FIGURES))

    @classmethod
    def of(cls, half_width: Floats, keep: Floats) -> "ErrorCounts":
        """Count rows: their relative half-widths, inf where there is none, and keep rates; at 1 they say nothing."""
        shed = keep < 1.0
        known = shed & np.isfinite(half_width)
        figures = np.zeros(FIGURES)
        with np.errstate(divide="ignore"):
            unit = np.log(unit_errors(half_width[known], keep[known]) / LEAST) / np.log(_STEP)
        buckets = np.clip(unit, 0, BUCKETS - 1).astype(np.int64)
        figures[:BUCKETS] = np.bincount(buckets, minlength=BUCKETS)
        unknown = shed & ~known
        figures[_UNKNOWN], figures[_UNKNOWN_KEEP] = unknown.sum(), keep[unknown].sum()
        return cls(figures)

    def __add__(self, other: "ErrorCounts") -> "ErrorCounts":
        return ErrorCounts(self.figures + other.figures)

    def since(self, before: "ErrorCounts | None") -> "ErrorCounts":
        """Return what was counted since; all, if that ran backwards, as it begins anew with its instance."""
        if before is None or (self.figures < before.figures - 1e-6).any():
            return self
        return ErrorCounts(self.figures - before.figures)

    def scaled(self, share: float) -> "ErrorCounts":
        """Return these counts, each row counting for less."""
        return ErrorCounts(self.figures * share)

    def without_unknown(self) -> "ErrorCounts":
        """Return them without the rows that have no interval."""
        figures = self.figures.copy()
        figures[[_UNKNOWN, _UNKNOWN_KEEP]] = 0.0
        return ErrorCounts(figures)

    @property
    def rows(self) -> float:
        """Rows of which something was shed."""
        return float(self.figures[: _UNKNOWN + 1].sum())

    @property
    def unknown(self) -> float:
        """Those of them that have no interval."""
        return float(self.figures[_UNKNOWN])

    @property
    def unknown_keep(self) -> float:
        """The mean keep rate of those, 1 if there is none."""
        return float(self.figures[_UNKNOWN_KEEP] / self.unknown) if self.unknown > 0 else 1.0

    def quantile(self, share: float) -> float:
        """Return the unit error that this share in (0, 1) of the rows does not exceed; inf: too many have no interval.

        Within a bucket it is interpolated. 0 where there is no row.
        """
        wanted = share * self.rows
        reached = np.cumsum(self.figures[:BUCKETS])
        if not self.rows:
            return 0.0
        if wanted > reached[-1] * (1.0 + 1e-12):
            return float(np.inf)
        bucket = min(int(np.searchsorted(reached, wanted)), BUCKETS - 1)
        inside = 1.0 - (reached[bucket] - wanted) / max(self.figures[bucket], 1e-300)
        return float(LEAST * _STEP ** (bucket + float(np.clip(inside, 0.0, 1.0))))


def widest(half_widths: list[Floats]) -> Floats:
    """Return the widest of the intervals of each row, of one array for each aggregate, one or more."""
    return np.asarray(reduce(np.maximum, half_widths), np.float64)
