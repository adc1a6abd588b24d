"""The results of aggregates over a sample: values for all rows, their intervals, and how good a result is.

`Aggregation` has one `Estimates` if its results carry the columns of `result_columns`; see docs/design/weights.md.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.accumulators.group_moments import MOMENTS, BlockMoments
from penstock.engine.accumulators.intervals import MIN_ROWS, Interval, binomial
from penstock.engine.accumulators.typed_estimates import typed, typed_ends
from penstock.engine.accumulators.weighted_blocks import ALL_ROWS, FLAWED, HEADER, MISSING, Block, Sums
from penstock.engine.kernels.interval_ends import accuracies
from penstock.model.aggregates import AggregateCall
from penstock.model.max_error import CONFIDENCE
from penstock.state.keys.arrays import Ints, Mask, read_only

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

Values = Callable[[], pa.Array]
"""Returns the values of one aggregate's exact part, of the slots in question."""

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
        values: Sequence[Values],
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
            return self.exact([value() for value in values], len(row_counts))
        estimated: list[pa.Array] = []
        behind: list[pa.Array] = []
        for index, (kind, function, block) in enumerate(zip(self.types, self.functions, self.blocks, strict=True)):
            if block is None:
                estimated.append(values[index]())
                continue
            moments = MOMENTS[block.sums](vectors[:, block.start : block.end], *exacts[index]())
            numbers, ends = sample.estimates(function, moments)
            with named(index):
                shown = typed(numbers, kind, moments.present(function) & sample.shed)
            if not sample.shed.all():
                shown = _instead(values[index](), shown, sample.shed)
            estimated.append(shown)
            behind += _ends(shown, ends, sample, kind)
        biased = sample.flawed | (sample.shed if self.has_raw else False)
        return [*estimated, *behind, pa.array(sample.accuracy()), pa.array(biased)]


_SUMS = {Sample.OF_KEYS: Sums.OF_KEYS, Sample.OF_STRATA: Sums.OF_DRAWS}


class _Sample:
    """What is known of the rows of each group, whatever their values."""

    def __init__(self, vectors: Doubles, row_counts: Ints, confidence: float) -> None:
        self._confidence = confidence
        self._vectors, self._rows = vectors, row_counts
        self._n, self._weights, self._s = (vectors[:, ALL_ROWS.start + place] for place in range(3))
        self.shed: Mask = self._n > 0
        self.flawed: Mask = vectors[:, FLAWED] > 0

    def accuracy(self) -> Doubles:
        """Return the share of rows that took part, times the mean accuracy of those that are results themselves.

        It is rounded to `ACCURACY_DIGITS` digits behind the point: sums of weights are off in the last of a double.
        """
        shares = np.empty(len(self._rows))
        accuracies(read_only(self._rows), read_only(self._vectors), MISSING, 10.0**ACCURACY_DIGITS, shares)
        return shares

    def estimates(self, function: str, moments: BlockMoments) -> tuple[Doubles, Interval]:
        """Return the estimate of each group's value, and its interval."""
        values, ends = moments.estimates(function, self._confidence)
        if function != "count":
            return values, ends
        is_small = self.shed & (moments.n < MIN_ROWS)
        if moments.is_of_rows and is_small.any():
            few = np.flatnonzero(is_small & self._is_even())
            keep = np.clip(self._n[few] / self._weights[few], 1e-9, 1.0 - 1e-9)
            counted = np.rint(np.maximum(moments.n[few], 0)).astype(np.int64)
            exact = binomial(counted, keep, self._confidence)
            ends.low[few], ends.high[few] = exact.low + moments.count[few], exact.high + moments.count[few]
            ends.valid[few] = ends.certified[few] = True
        # Rows that were kept are there, whatever the sample says.
        np.maximum(ends.low, moments.n + moments.count, out=ends.low)
        return values, ends

    def _is_even(self) -> Mask:
        """Return where all rows below keep 1 came at one keep rate."""
        squares = self._s + self._weights
        even: Mask = np.abs(self._n * squares - self._weights**2) <= 1e-9 * self._weights**2
        return even


def _ends(shown: pa.Array, ends: Interval, sample: _Sample, kind: pa.DataType) -> list[pa.Array]:
    """Return low, high and certified: the value itself where nothing was shed, null where there is no interval."""
    ends = ends.where(sample.shed & ~sample.flawed)
    low, high = typed_ends(ends.low, ends.high, kind, ends.valid, shown)
    if sample.shed.all():
        certified = pa.array(ends.certified) if ends.valid.all() else pa.array(ends.certified, mask=~ends.valid)
        return [low, high, certified]
    exact = ~sample.shed & ~sample.flawed
    low, high = (_instead(end, shown, exact) for end in (low, high))
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
