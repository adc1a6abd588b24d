"""What the weighted part of an aggregation does with one batch: passes over its rows, as few as there can be.

A pass adds up what some rows give, and more than one block may want it: rows without filter and null are those of all
rows of a group, whose number every pass over such values knows as well.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.accumulate import Signs, add_counts
from penstock.engine.kernels.accumulate_weighted import add_weighted_rows, add_weighted_values
from penstock.engine.kernels.batch_sums import SUMS_WIDTH, settle_sums, sum_powers, sum_rows
from penstock.state.keys.arrays import Ints
from penstock.state.store import Slots

Doubles = NDArray[np.float64]

_NO_COUNTS: Ints = np.zeros(0, np.int64)

MOST_SLOTS = 1 << 16
"""Slots beyond which sums by slot would not stay in a cache."""


@dataclass(slots=True)
class Pass:
    """Rows with their signs, and where in vectors their moments begin.

    ``of_rows``: the places of moments of rows alone. ``of_values``: the place of those of the ``values``, None if there
    are none. ``counts``: the sums of signs by slot that the rows are added to (None: none).
    """

    signs: Signs
    of_rows: list[int] = field(default_factory=list)
    of_values: int | None = None
    values: Doubles | None = None
    counts: Ints | None = None


class BatchPasses:
    """Folds batches into vectors; keeps the room that it needs for sums by slot."""

    def __init__(self) -> None:
        self._sums: Doubles = np.zeros((0, SUMS_WIDTH))
        self._touched: Ints = np.zeros(0, np.int64)

    def fold(self, passes: Iterable[Pass], slots: Slots, weight: float, vectors: Doubles) -> None:
        """Add rows of this weight to the vectors and counts of their slots."""
        by_slot = len(vectors) <= MOST_SLOTS
        if by_slot and len(self._touched) < len(vectors):
            self._sums, self._touched = np.zeros((len(vectors), SUMS_WIDTH)), np.empty(len(vectors), np.int64)
        for rows in passes:
            (self._fold_by_slot if by_slot else _fold_by_row)(rows, slots, weight, vectors)

    def _fold_by_slot(self, rows: Pass, slots: Slots, weight: float, vectors: Doubles) -> None:
        sums = self._sums
        if rows.values is None:
            touched = self._touched[: sum_rows(slots, rows.signs, sums, self._touched)]
        else:
            touched = self._touched[: sum_powers(slots, rows.signs, rows.values, sums, self._touched)]
        counts = _NO_COUNTS if rows.counts is None else rows.counts
        of_values = -1 if rows.of_values is None else rows.of_values
        settle_sums(touched, sums, weight, np.array(rows.of_rows, np.int64), of_values, counts, vectors)


def _fold_by_row(rows: Pass, slots: Slots, weight: float, vectors: Doubles) -> None:
    if rows.counts is not None:
        add_counts(slots, rows.signs, rows.counts)
    for start in rows.of_rows:
        add_weighted_rows(slots, rows.signs, weight, start, vectors)
    if rows.of_values is not None and rows.values is not None:
        add_weighted_values(slots, rows.signs, rows.values, weight, rows.of_values, vectors)


def joined(all_rows: Pass, others: Sequence[Pass]) -> list[Pass]:
    """Return passes that do the same, ``all_rows`` together with the first of the others that is over the same rows.

    What others without values do over the same rows is done in that pass, too.
    """
    passes: list[Pass] = [all_rows]
    for other in others:
        if other.signs is not all_rows.signs:
            passes.append(other)
        elif other.values is None:
            all_rows.of_rows += other.of_rows
        elif all_rows.values is None:
            all_rows.of_values, all_rows.values = other.of_values, other.values
        else:
            passes.append(other)
    return passes
