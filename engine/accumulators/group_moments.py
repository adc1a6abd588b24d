"""The moments of one aggregate's estimates, group by group, and the estimates and intervals that follow from them.

Rows were kept each by itself, by their keys, or by strata: each has its moments; see docs/design/weights.md 4, 6 and 7.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from penstock.engine.accumulators.clusters import keys_in, moments_of_keys
from penstock.engine.accumulators.intervals import (
    MIN_ROWS,
    Interval,
    Moments,
    expansion,
    interval,
    moments_of_mean,
)
from penstock.engine.accumulators.strata import limit_of, moments_of_draws, rows_drawn
from penstock.engine.accumulators.weighted_blocks import Sums
from penstock.engine.kernels.accumulate_weighted import COUNT_WIDTH, VALUE_WIDTH
from penstock.engine.kernels.interval_ends import COUNT, MEAN, SUM, GroupEstimates, estimate_groups
from penstock.shedding.key_sampling import BUCKETS
from penstock.state.keys.arrays import Ints, Mask, read_only

Doubles = NDArray[np.float64]

_CODES = {"count": COUNT, "sum": SUM, "mean": MEAN}


class BlockMoments:
    """One aggregate's moments and exact part, an entry a group."""

    is_of_rows = True
    """Whether rows were kept each by itself."""

    def __init__(self, block: Doubles, total: Doubles, count: Ints) -> None:
        """``block`` has a row for each group; ``total`` and ``count`` are those of its rows of keep 1."""
        self._block, self._total = block, total
        self.count, self.n = count, block[:, 0]

    def present(self, function: str) -> Mask:
        """Return which groups have an estimate."""
        return np.ones(len(self.n), np.bool_) if function == "count" else (self.count > 0) | (self.n > 0)

    def estimates(self, function: str, confidence: float) -> tuple[Doubles, Interval]:
        """Return the estimates for all rows, and their intervals."""
        groups = len(self.n)
        numbers = np.empty(groups), np.empty(groups), np.empty(groups)
        into = GroupEstimates(*numbers, np.empty(groups, np.bool_), np.empty(groups, np.bool_))
        exact = read_only(self._total), read_only(self.count)
        estimate_groups(_CODES[function], read_only(self._block), *exact, float(MIN_ROWS), expansion(confidence), into)
        return into.values, Interval(*into[1:])


class _ApartMoments(BlockMoments):
    """Moments that are worked out apart from estimates."""

    def estimates(self, function: str, confidence: float) -> tuple[Doubles, Interval]:
        """Return the estimates for all rows, and their intervals."""
        values = self._values(function)
        moments = self.of_rows() if function == "count" else self.deviations(function, values)
        return values, interval(values, self.effective_rows(), moments, confidence)

    def _values(self, function: str) -> Doubles:
        rows = self.count + self._block[:, 1]
        if function == "count":
            return rows
        with np.errstate(all="ignore"):
            total: Doubles = self._total + self._block[:, 5]
            return total / rows if function == "mean" else total

    def effective_rows(self) -> Doubles:
        """Return how many rows of one weight would give as much variance: n at one keep rate, less at several."""
        s, t = self._block[:, 2], self._block[:, 3]
        with np.errstate(all="ignore"):
            mean = t / s
            return np.nan_to_num(s / (mean * (mean + 1.0)) * (1.0 + 1e-9))

    def of_rows(self) -> Moments:
        """Return the moments of the number of rows."""
        s, t, f = (self._block[:, place] for place in (2, 3, 4))
        return Moments(s, s, t, f)

    def deviations(self, function: str, value: Doubles) -> Moments:
        """Return the moments of the error of a sum or, linearised, of a mean."""
        column = self._block.T
        if function == "sum":
            return Moments(column[9], column[12], column[13], column[15])
        return moments_of_mean(self._block, value, self.count + self._block[:, 1])


class KeyMoments(_ApartMoments):
    """The moments of an aggregate over rows that were kept by their keys, from sums by bucket of keys."""

    is_of_rows = False

    def effective_rows(self) -> Doubles:
        """Return about how many keys there are."""
        return keys_in(self._by_bucket(0))

    def of_rows(self) -> Moments:
        """Return the moments of the number of rows."""
        return moments_of_keys(self._by_bucket(0), self._keep())

    def deviations(self, function: str, value: Doubles) -> Moments:
        """Return the moments of the error of a sum or, linearised, of a mean."""
        if function == "sum":
            return moments_of_keys(self._by_bucket(1), self._keep())
        deviations = self._by_bucket(1) - np.nan_to_num(value)[:, None] * self._by_bucket(0)
        return moments_of_keys(deviations, self._keep()).about(self.count + self._block[:, 1])

    def _by_bucket(self, part: int) -> Doubles:
        """Return the sums of rows (0) or values (1)."""
        # Behind the moments stand those of rows, and those of values if there are values.
        start = COUNT_WIDTH if self._block.shape[1] == COUNT_WIDTH + BUCKETS else VALUE_WIDTH
        return self._block[:, start + part * BUCKETS : start + (part + 1) * BUCKETS]

    def _keep(self) -> Doubles:
        """Return the keep rate of the rows; of several rates, that of all rows together."""
        with np.errstate(all="ignore"):
            return np.clip(self.n / self._block[:, 1], 0.0, 1.0)


class StrataMoments(_ApartMoments):
    """The moments of an aggregate over rows of strata, from sums by what their records drew.

    Where these are not of all rows the moments are those of rows that were kept independently, which are greater.
    """

    def of_rows(self) -> Moments:
        """Return the moments of the number of rows."""
        return self._less(self._sums(0), super().of_rows())

    def deviations(self, function: str, value: Doubles) -> Moments:
        """Return the moments of the error of a sum or, linearised, of a mean."""
        independent = super().deviations(function, value)
        if function == "sum":
            return self._less(self._sums(1), independent)
        rows = self.count + self._block[:, 1]
        with np.errstate(all="ignore"):
            sums = (self._sums(1) - np.nan_to_num(value)[:, None] * self._sums(0)) / rows[:, None]
        return self._less(sums, independent)

    def _less(self, sums: Doubles, independent: Moments) -> Moments:
        keep = np.clip(self.n / np.maximum(self._block[:, 1], 1.0), 0.0, 1.0)
        drawn = np.abs(rows_drawn(self._sums(0)) - self.n) < 0.5
        moments = moments_of_draws(sums, keep, limit_of(self._sums(0)))
        # Sums that are equal by chance do not tell what was dropped at the edges of a window.
        least = replace(moments, s2=np.maximum(moments.s2, independent.s2 / np.maximum(self.n, 1.0)))
        return least.where(drawn, independent)

    def _sums(self, part: int) -> Doubles:
        """Return the sums of rows (0) or values (1)."""
        width = Sums.OF_DRAWS.value
        start = COUNT_WIDTH if self._block.shape[1] == COUNT_WIDTH + width else VALUE_WIDTH
        return self._block[:, start + part * width : start + (part + 1) * width]


MOMENTS: dict[Sums, type[BlockMoments]] = {
    Sums.NONE: BlockMoments,
    Sums.OF_KEYS: KeyMoments,
    Sums.OF_DRAWS: StrataMoments,
}
