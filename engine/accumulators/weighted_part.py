"""The weighted part of an aggregation in one table: what estimates need of rows that stand for others.

It lies beside the exact columns, in a column of vectors that takes nothing before the first batch below keep 1 comes
(docs/design/weights.md 2).
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import NO_SIGNS, Rows, doubles, integers, signs_of
from penstock.engine.accumulators.cells import Cells
from penstock.engine.accumulators.estimates import Estimates, Named
from penstock.engine.accumulators.strata import LEAST_STEPS, scale_of
from penstock.engine.accumulators.weighted_blocks import ALL_ROWS, MISSING, Sums
from penstock.engine.kernels.accumulate import Signs
from penstock.engine.kernels.accumulate_weighted import (
    SCRATCH_WIDTH,
    add_accuracies,
    add_grouped_rows,
    add_grouped_values,
    add_to_buckets,
    add_vectors,
    add_weighted_rows,
    add_weighted_values,
    scan_vectors,
)
from penstock.model.keep_rates import STEPS, steps_of
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import KeyedTable, Slots

Doubles = NDArray[np.float64]

_NO_DOUBLES: Doubles = read_only(np.zeros(0))

Scratch = tuple[Doubles, Ints]
"""Sums by slot of one batch, and the slots that it touched."""

MOST_SCRATCH = 1 << 16
"""Slots beyond which sums by slot would not stay in a cache."""

LEAST_REPEATS = 4
"""Rows of a batch for each slot from which on it pays to add them up by slot first."""

WEIGHTED = "weighted"
"""The hidden column of vectors."""


class WeightedPart:
    """The vectors of one aggregation in one table."""

    def __init__(self, estimates: Estimates, table: KeyedTable) -> None:
        self._estimates = estimates
        self._cells = table.vectors(WEIGHTED)
        blocks = dict.fromkeys(block for block in estimates.blocks if block is not None and block != ALL_ROWS)
        self._blocks = {estimates.blocks.index(block): block for block in blocks}
        self._scratch: Scratch | None = None
        self._members = frozenset(index for index, block in enumerate(estimates.blocks) if block is not None)

    def update(self, rows: Rows, values: Sequence[Sequence[pa.Array]], where: Sequence[Mask | None]) -> frozenset[int]:
        """Fold rows in that were kept at a rate below 1 or are no exact results; see `BoundAggregation.update`.

        Returns:
            The aggregates that have the rows now, and must not have them in their exact part as well.

        Raises:
            StateBudgetError: there is no room for vectors; nothing was folded.
        """
        vectors, slots = self._cells.rows(), read_only(rows.slots)
        signs = NO_SIGNS if rows.weights is None else read_only(rows.weights)
        if rows.quality is not None:
            missing, flaws = read_only(rows.quality.missing), read_only(rows.quality.flaws)
            add_accuracies(slots, signs, missing, flaws, MISSING, vectors)
        if rows.keep == 1.0:
            return frozenset()
        weight = 1.0 / rows.keep
        scratch = self._scratch_for(len(vectors), len(slots))
        _add_rows(slots, signs, weight, ALL_ROWS.start, scratch, vectors)
        for index, block in self._blocks.items():
            signs = signs_of(rows, where[index], values[index])
            numbers = _doubles(values[index][0]) if block.of_values else _NO_DOUBLES
            if not block.of_values:
                _add_rows(slots, signs, weight, block.start, scratch, vectors)
            elif scratch is None:
                add_weighted_values(slots, signs, numbers, weight, block.start, vectors)
            else:
                add_grouped_values(slots, signs, numbers, weight, block.start, *scratch, vectors)
            if block.sums is not Sums.NONE and rows.buckets is not None:
                add = _add_to_keys if block.sums is Sums.OF_KEYS else _add_to_draws
                add(slots, signs, _NO_DOUBLES, rows, block.rows, vectors)
                if block.of_values:
                    add(slots, signs, numbers, rows, block.values, vectors)
        return self._members

    def _scratch_for(self, slots: int, rows: int) -> Scratch | None:
        """Return room for sums by slot, None where rows are too few for these to be of use."""
        if slots > MOST_SCRATCH or rows < LEAST_REPEATS * slots:
            return None
        if self._scratch is None or len(self._scratch[1]) < slots:
            self._scratch = np.zeros((slots, SCRATCH_WIDTH)), np.empty(slots, np.int64)
        return self._scratch

    def absorb(self, into: Slots, other: "WeightedPart", slots: Slots) -> None:
        """Add other's slots[i] to my into[i]."""
        if other._cells.is_used:
            add_vectors(read_only(into), read_only(slots), other._cells.rows(), self._cells.rows())

    def scan(self, slots: Slots, places: Ints) -> None:
        """Let every slot absorb the slots of its run before it; see `Cells.scan`."""
        if self._cells.is_used:
            scan_vectors(read_only(slots), read_only(places), self._cells.rows())

    def results(
        self,
        slots: Slots,
        values: Sequence[pa.Array],
        count_rows: Callable[[Slots], Ints],
        cells: Sequence[Cells | None],
        named: Named,
    ) -> list[pa.Array]:
        """Return values for all rows of these slots, and the columns behind them.

        ``values`` and ``cells`` (None: the rows themselves) are those of the exact part, by aggregate; ``count_rows``
        returns the kept rows of slots; ``named`` as in
        `Estimates.results`.

        Raises:
            NumericOverflowError: a value does not fit its type.
        """
        if not self._cells.is_used:
            return self._estimates.exact(values, len(slots))
        vectors, row_counts = self._cells.rows()[slots], count_rows(slots)
        counts = np.maximum(row_counts - np.rint(vectors[:, ALL_ROWS.start]).astype(np.int64), 0)
        rows = counts.astype(np.float64), counts
        exacts = [(lambda: rows) if item is None else partial(item.exact_part, slots) for item in cells]
        return self._estimates.results(values, vectors, row_counts, exacts, named)


def _add_rows(slots: Slots, signs: Signs, weight: float, start: int, scratch: Scratch | None, vectors: Doubles) -> None:
    if scratch is None:
        add_weighted_rows(slots, signs, weight, start, vectors)
    else:
        add_grouped_rows(slots, signs, weight, start, *scratch, vectors)


def _add_to_keys(slots: Slots, signs: Signs, values: Doubles, rows: Rows, start: int, vectors: Doubles) -> None:
    """Add values (none: 1 for each row) to sums by bucket, whose squares have the expectation of the variance."""
    assert rows.buckets is not None
    scale = sqrt(1.0 / rows.keep**2 - 1.0 / rows.keep)
    add_to_buckets(slots, signs, values, read_only(rows.buckets), scale, start, vectors)


def _add_to_draws(slots: Slots, signs: Signs, values: Doubles, rows: Rows, start: int, vectors: Doubles) -> None:
    """Add values (none: 1 for each row) to sums by step, and to those of their rate, unless it has too few steps."""
    assert rows.buckets is not None
    limit = steps_of(rows.keep)
    if limit < LEAST_STEPS:
        return
    scale = float(scale_of(limit))
    add_to_buckets(slots, signs, values, read_only(rows.buckets), scale, start, vectors)
    rates = read_only(np.full(len(rows.buckets), limit, np.uint8))
    add_to_buckets(slots, signs, values, rates, scale / limit, start + STEPS, vectors)


def _doubles(values: pa.Array) -> Doubles:
    """Return numbers and durations as doubles."""
    if pa.types.is_duration(values.type):
        return read_only(integers(values).astype(np.float64))
    return doubles(values)
