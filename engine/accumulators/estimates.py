"""The results of aggregates over a sample: values for all rows, their intervals, and how good a result is.

`Aggregation` has one `Estimates` if its results carry the columns of `result_columns`; see docs/design/weights.md.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.accumulators.clusters import keys_in, moments_of_keys
from penstock.engine.accumulators.intervals import MIN_ROWS, Interval, Moments, binomial, central, interval
from penstock.engine.accumulators.strata import limit_of, moments_of_draws, rows_drawn
from penstock.engine.accumulators.typed_estimates import typed, typed_ends
from penstock.engine.accumulators.weighted_blocks import ALL_ROWS, FLAWED, HEADER, MISSING, Block, Sums
from penstock.engine.kernels.accumulate_weighted import COUNT_WIDTH, VALUE_WIDTH
from penstock.model.aggregates import AggregateCall
from penstock.model.max_error import CONFIDENCE
from penstock.shedding.key_sampling import BUCKETS
from penstock.state.keys.arrays import Ints, Mask

Doubles = NDArray[np.float64]

ESTIMATED = ("count", "sum", "mean")
"""The functions that have an estimator for all rows; every other one answers for the kept rows alone."""

ACCURACY_DIGITS = 12
"""The digits of an accuracy behind the point."""


class Sample(Enum):
    """What the results of an aggregation tell of rows that were shed."""

    UNKNOWN = "unknown"
    """Nothing: they have no such columns."""

    MEASURED = "measured"
    """How many there were: values are those of the kept rows."""

    ESTIMATED = "estimated"
    """Values for all rows, with intervals, where aggregates have an estimator."""

    OF_KEYS = "of keys"
    """As `ESTIMATED`, of rows that were kept by keys: those of a key stay together."""

    OF_STRATA = "of strata"
    """As `ESTIMATED`, of rows of which strata keep an even share: rows say what they drew."""


Exact = Callable[[], tuple[Doubles, Ints]]
"""Returns the sums (of counts: the counts) of the rows of keep 1, and how many these are, of the slots in question."""

Named = Callable[[int], AbstractContextManager[None]]
"""Adds to errors of what runs in it which aggregate it was for, by number."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """The weighted blocks of an aggregation's vector: ``blocks`` by aggregate, None where there is no estimator.

    ``confidence``: the share of samples whose intervals cover, in (0, 1); nothing of it is in state.
    """

    functions: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    blocks: tuple[Block | None, ...]
    confidence: float = CONFIDENCE

    @classmethod
    def of(
        cls,
        calls: Sequence[AggregateCall],
        types: Sequence[pa.DataType],
        owners: Sequence[int | None],
        sample: Sample,
        confidence: float = CONFIDENCE,
    ) -> "Estimates":
        """Lay out the vector: aggregates that share exact state share a block; of `Sample.MEASURED` none has one."""
        start, sums = HEADER, _SUMS.get(sample, Sums.NONE)
        owned: dict[int | None, Block] = {}
        blocks: list[Block | None] = []
        for call, owner in zip(calls, owners, strict=True):
            if sample is Sample.MEASURED or call.function not in ESTIMATED:
                blocks.append(None)
            elif owner is None and sums is Sums.NONE:
                blocks.append(ALL_ROWS)
            else:
                if owner not in owned:
                    owned[owner] = Block(start, call.function != "count", sums)
                    start = owned[owner].end
                blocks.append(owned[owner])
        return cls(tuple(call.function for call in calls), tuple(types), tuple(blocks), confidence)

    @property
    def width(self) -> int:
        """The length of the vector."""
        return max([HEADER, *(block.end for block in self.blocks if block is not None)])

    @property
    def has_raw(self) -> bool:
        """Whether an aggregate, or all of it, answers for the kept rows alone."""
        return not self.blocks or None in self.blocks

    def exact(self, values: Sequence[pa.Array], rows: int) -> list[pa.Array]:
        """Return values and the columns behind them where nothing was shed."""
        yes = _repeated(True, rows)
        behind = []
        for value, block in zip(values, self.blocks, strict=True):
            if block is not None:
                known = pc.if_else(value.is_valid(), True, None) if value.null_count else yes
                behind += [value, value, known]
        return [*values, *behind, _repeated(1.0, rows), _repeated(False, rows)]

    def results(
        self,
        values: Sequence[pa.Array],
        vectors: Doubles,
        row_counts: Ints,
        exacts: Sequence[Exact],
        named: Named,
    ) -> list[pa.Array]:
        """Return values for all rows and the columns behind them.

        ``values``: those of the exact part (raw where there is no estimator); ``vectors``: the weighted part, a row a
        group; ``row_counts``: the kept rows of each; ``named`` adds to errors which aggregate it was.

        Raises:
            NumericOverflowError: a value does not fit its type.
        """
        sample = _Sample(vectors, row_counts, self.confidence)
        if not sample.shed.any() and not sample.flawed.any():
            return self.exact(values, len(row_counts))
        estimated: list[pa.Array] = []
        behind: list[pa.Array] = []
        for index, (value, kind, function, block) in enumerate(
            zip(values, self.types, self.functions, self.blocks, strict=True)
        ):
            if block is None:
                estimated.append(value)
                continue
            part = vectors[:, block.start : block.end]
            moments = _MOMENTS[block.sums](part, *exacts[index]())
            numbers, present = moments.values(function)
            with named(index):
                shown = _instead(value, typed(numbers, kind, present & sample.shed), sample.shed)
            estimated.append(shown)
            behind += _ends(shown, sample.interval(function, numbers, moments), sample, kind)
        biased = sample.flawed | (sample.shed if self.has_raw else False)
        return [*estimated, *behind, pa.array(sample.accuracy()), pa.array(biased)]


_SUMS = {Sample.OF_KEYS: Sums.OF_KEYS, Sample.OF_STRATA: Sums.OF_DRAWS}


class _Sample:
    """What is known of the rows of each group, whatever their values."""

    def __init__(self, vectors: Doubles, row_counts: Ints, confidence: float) -> None:
        self._confidence = confidence
        self._n, self._weights, self._s = (vectors[:, ALL_ROWS.start + place] for place in range(3))
        self._missing = vectors[:, MISSING]
        self._rows = row_counts
        self.shed: Mask = self._n > 0
        self.flawed: Mask = vectors[:, FLAWED] > 0

    def accuracy(self) -> Doubles:
        """Return the share of rows that took part, times the mean accuracy of those that are results themselves.

        It is rounded to `ACCURACY_DIGITS` digits behind the point: sums of weights are off in the last of a double.
        """
        rows = np.maximum(self._rows, 1)
        kept = np.where(self.shed, rows / (rows - self._n + np.where(self.shed, self._weights, self._n)), 1.0)
        share = np.clip(kept * np.where(self.flawed, 1.0 - self._missing / rows, 1.0), 0.0, 1.0)
        rounded: Doubles = np.round(share, ACCURACY_DIGITS)
        return rounded

    def interval(self, function: str, value: Doubles, moments: "_BlockMoments") -> Interval:
        """Return the interval of each group's value."""
        if function != "count":
            return interval(value, moments.effective_rows(), moments.deviations(function, value), self._confidence)
        ends = interval(value, moments.effective_rows(), moments.of_rows(), self._confidence)
        few = np.flatnonzero(self.shed & (moments.n < MIN_ROWS) & self._is_even() & moments.is_of_rows)
        if few.size:
            keep = np.clip(self._n[few] / self._weights[few], 1e-9, 1.0 - 1e-9)
            counted = np.rint(np.maximum(moments.n[few], 0)).astype(np.int64)
            exact = binomial(counted, keep, self._confidence)
            ends.low[few], ends.high[few] = exact.low + moments.count[few], exact.high + moments.count[few]
            ends.valid[few] = ends.certified[few] = True
        # Rows that were kept are there, whatever the sample says.
        np.maximum(ends.low, moments.n + moments.count, out=ends.low)
        return ends

    def _is_even(self) -> Mask:
        """Return where all rows below keep 1 came at one keep rate."""
        squares = self._s + self._weights
        even: Mask = np.abs(self._n * squares - self._weights**2) <= 1e-9 * self._weights**2
        return even


class _BlockMoments:
    """One aggregate's moments and exact part, an entry a group."""

    is_of_rows = True
    """Whether rows were kept each by itself."""

    def __init__(self, block: Doubles, total: Doubles, count: Ints) -> None:
        self._block = block
        self._total = total
        self.count = count
        self.n = block[:, 0]

    def values(self, function: str) -> tuple[Doubles, Mask]:
        """Return the estimates for all rows, and where there is one."""
        rows = self.count + self._block[:, 1]
        if function == "count":
            return rows, np.ones(len(rows), np.bool_)
        present = (self.count > 0) | (self.n > 0)
        with np.errstate(all="ignore"):
            total = self._total + self._block[:, 5]
            return (total / rows if function == "mean" else total), present

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
        s = (column[2], column[6], column[9], column[12])
        t = (column[3], column[7], column[10], column[13])
        f = (column[4], column[8], column[11], column[14], column[15])
        return central(s, t, f, value).about(self.count + self._block[:, 1])


class _KeyMoments(_BlockMoments):
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


class _StrataMoments(_BlockMoments):
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


_MOMENTS: dict[Sums, type[_BlockMoments]] = {
    Sums.NONE: _BlockMoments,
    Sums.OF_KEYS: _KeyMoments,
    Sums.OF_DRAWS: _StrataMoments,
}


def _ends(shown: pa.Array, ends: Interval, sample: _Sample, kind: pa.DataType) -> list[pa.Array]:
    """Return low, high and certified: the value itself where nothing was shed, null where there is no interval."""
    ends = ends.where(sample.shed & ~sample.flawed)
    exact = ~sample.shed & ~sample.flawed
    low, high = (_instead(end, shown, exact) for end in typed_ends(ends.low, ends.high, kind, ends.valid, shown))
    return [low, high, pc.if_else(low.is_valid(), pa.array(ends.certified | exact), None)]


def _repeated(value: float | bool, rows: int) -> pa.Array:
    """Return an array of one value; arrays of a length are made once, as they cost more than what is computed."""
    return _constant(value, isinstance(value, bool), 1 << max(rows - 1, 0).bit_length()).slice(0, rows)


@lru_cache(maxsize=64)
def _constant(value: float | bool, flag: bool, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.bool_() if flag else pa.float64()), rows)


def _instead(values: pa.Array, others: pa.Array, wanted: Mask) -> pa.Array:
    """Return the others where wanted, else the values."""
    return pc.if_else(pa.array(wanted), others, values)
