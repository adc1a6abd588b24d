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
from penstock.engine.accumulators.batch_passes import BatchPasses, Pass, joined
from penstock.engine.accumulators.cells import Cells
from penstock.engine.accumulators.estimates import Estimates, Named, Values
from penstock.engine.accumulators.strata import LEAST_STEPS, scale_of
from penstock.engine.accumulators.weighted_blocks import ALL_ROWS, MISSING, Sums
from penstock.engine.kernels.accumulate import Signs, add_counts
from penstock.engine.kernels.accumulate_weighted import (
    add_accuracies,
    add_to_buckets,
    add_vectors,
    scan_vectors,
)
from penstock.model.keep_rates import STEPS, steps_of
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import KeyedTable, Slots

Doubles = NDArray[np.float64]

_NO_DOUBLES: Doubles = read_only(np.zeros(0))

WEIGHTED = "weighted"
"""The hidden column of vectors."""


class WeightedPart:
    """The vectors of one aggregation in one table."""

    def __init__(self, estimates: Estimates, table: KeyedTable) -> None:
        self._estimates = estimates
        self._cells = table.vectors(WEIGHTED)
        blocks = dict.fromkeys(block for block in estimates.blocks if block is not None and block != ALL_ROWS)
        self._blocks = {estimates.blocks.index(block): block for block in blocks}
        self._passes = BatchPasses()
        self._members = frozenset(index for index, block in enumerate(estimates.blocks) if block is not None)

    def update(
        self, rows: Rows, values: Sequence[Sequence[pa.Array]], where: Sequence[Mask | None], counts: Ints
    ) -> frozenset[int]:
        """Fold rows in that were kept at a rate below 1 or are no exact results; see `BoundAggregation.update`.

        All are added to the ``counts`` of rows by slot as well.

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
            add_counts(slots, signs, counts)
            return frozenset()
        all_rows, others = Pass(signs, [ALL_ROWS.start], counts=counts), list[Pass]()
        for index, block in self._blocks.items():
            masked = where[index] is not None or any(array.null_count for array in values[index])
            counted = signs_of(rows, where[index], values[index]) if masked else signs
            numbers = _doubles(values[index][0]) if block.of_values else None
            others.append(Pass(counted, [block.start]) if numbers is None else Pass(counted, [], block.start, numbers))
            if block.sums is not Sums.NONE and rows.buckets is not None:
                add = _add_to_keys if block.sums is Sums.OF_KEYS else _add_to_draws
                add(slots, counted, _NO_DOUBLES, rows, block.rows, vectors)
                if numbers is not None:
                    add(slots, counted, numbers, rows, block.values, vectors)
        self._passes.fold(joined(all_rows, others), slots, 1.0 / rows.keep, vectors)
        return self._members

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
        values: Sequence[Values],
        count_rows: Callable[[Slots], Ints],
        cells: Sequence[Cells | None],
        named: Named,
    ) -> list[pa.Array]:
        """Return values for all rows of these slots, and the columns behind them.

        ``values`` and ``cells`` (None: the rows themselves) are those of the exact part, by aggregate; ``count_rows``
        returns the kept rows of slots; ``named`` as in `Estimates.results`.

        Raises:
            NumericOverflowError: a value does not fit its type.
        """
        if not self._cells.is_used:
            return self._estimates.exact([value() for value in values], len(slots))
        vectors, row_counts = self._cells.rows()[slots], count_rows(slots)
        counts = np.maximum(row_counts - np.rint(vectors[:, ALL_ROWS.start]).astype(np.int64), 0)
        rows = counts.astype(np.float64), counts
        # Where all rows of a group stand for others, nothing of any aggregate is exact.
        apart = counts.any()
        exacts = [partial(item.exact_part, slots) if apart and item is not None else (lambda: rows) for item in cells]
        return self._estimates.results(values, vectors, row_counts, exacts, named)


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
