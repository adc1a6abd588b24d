"""Aggregates over frames of rows: for every row, over it and rows of its run before it.

A *run* is the rows of one key in order; runs lie one after the other, and ``places[i]`` is how many rows of its run
come before row i. `over` and `updates` call it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.aggregation import BoundAggregation
from penstock.engine.operators.merge_groups import ScratchGroups
from penstock.engine.operators.over.input import OverInput
from penstock.engine.operators.over.schema import OverPlan
from penstock.state.keys.arrays import Ints
from penstock.state.store import Slots, StateStore

_PAIRS_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True)
class Carried:
    """The accumulated aggregates of every run before these rows: cells and the slot of each run."""

    small: BoundAggregation
    small_slots: Slots
    large: BoundAggregation
    large_slots: Slots


class Frames:
    """Computes the results of rows, as one column for each aggregate of the spec."""

    def __init__(self, store: StateStore, plan: OverPlan, input: OverInput) -> None:
        """Open scratch memory, which holds nothing between two calls."""
        self._plan = plan
        self._input = input
        self._heads = ScratchGroups(store, plan.small, "frame_heads")
        self._tails = ScratchGroups(store, plan.small, "frame_tails")
        self._large = ScratchGroups(store, plan.large, "frame_groups")

    def sliding(self, seen: pa.RecordBatch, places: Ints, rows: int) -> list[pa.Array]:
        """Return the aggregates over the last ``rows`` rows of each row's run, it included.

        Raises:
            NumericOverflowError: a result does not fit its type.
            UserError: a user-defined aggregate raised.
        """
        return self._in_order(self._sliding_small(seen, places, rows), self._sliding_large(seen, places, rows))

    def running(self, seen: pa.RecordBatch, places: Ints, runs: Ints, carried: Carried | None) -> list[pa.Array]:
        """Return the aggregates over each row's run up to it, going on from what is ``carried``, and fold them there.

        ``runs[i]`` is the number of row i's run. Raises as `sliding` does.
        """
        fold, calls = self._input.fold, self._plan.small_calls
        slots, cells = self._heads.take(seen.num_rows), self._heads.cells
        fold(seen, slots, cells, calls)
        if carried is not None:
            cells.absorb(slots[places == 0], carried.small, carried.small_slots)
        cells.scan(slots, places)
        small = cells.results(slots)
        if carried is not None:
            fold(seen, carried.small_slots[runs], carried.small, calls)
        large: list[pa.Array] = []
        if self._plan.large_calls:
            groups, owners = self._large.cells, np.empty(0, np.int64)
            if carried is not None:
                groups, owners = carried.large, carried.large_slots
            elif len(runs):
                owners = self._large.take(int(runs[-1]) + 1)
            large = self._input.follow(seen, owners[runs], groups, self._plan.large_calls)
        return self._in_order(small, large)

    def release(self) -> None:
        """Give back scratch memory, which is no state to keep."""
        for scratch in (self._heads, self._tails, self._large):
            scratch.release()

    def _sliding_small(self, seen: pa.RecordBatch, places: Ints, rows: int) -> list[pa.Array]:
        """Cut runs into blocks of ``rows``: a frame is the tail of one block and the head of the next."""
        count, calls = seen.num_rows, self._plan.small_calls
        slots, heads = self._heads.take(count), self._heads.cells
        self._input.fold(seen, slots, heads, calls)
        in_block = places % rows
        heads.scan(slots, in_block)
        split = np.flatnonzero((places >= rows) & (in_block != rows - 1))
        if split.size:
            backwards, tails = self._tails.take(count), self._tails.cells
            tail_slots = backwards[::-1]
            self._input.fold(seen, tail_slots, tails, calls)
            begins = in_block == 0
            ends = np.append(np.flatnonzero(begins)[1:], count)
            after = ends[np.cumsum(begins) - 1] - 1 - np.arange(count)
            tails.scan(backwards, after[::-1])
            heads.absorb(slots[split], tails, tail_slots[split - rows + 1])
        return heads.results(slots)

    def _sliding_large(self, seen: pa.RecordBatch, places: Ints, rows: int) -> list[pa.Array]:
        """Fold every frame by itself."""
        if not self._plan.large_calls:
            return []
        parts = [self._large.cells.results(np.empty(0, np.int64))]
        for first, stop, positions, frames in _expanded(np.minimum(places + 1, rows)):
            slots = self._large.take(stop - first)
            self._input.fold(seen.take(pa.array(positions)), slots[frames], self._large.cells, self._plan.large_calls)
            parts.append(self._large.cells.results(slots))
        return [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]

    def _in_order(self, small: list[pa.Array], large: list[pa.Array]) -> list[pa.Array]:
        columns = dict(zip((*self._plan.small_calls, *self._plan.large_calls), (*small, *large), strict=True))
        return [columns[index] for index in sorted(columns)]


def _expanded(sizes: Ints) -> Iterator[tuple[int, int, Ints, Ints]]:
    """Yield, some rows [first, stop) at a time, (first, stop, row in a frame, whose frame counted from ``first``)."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        done = int(ends[first] - sizes[first])
        stop = max(first + 1, int(np.searchsorted(ends, done + _PAIRS_AT_ONCE, side="right")))
        size = sizes[first:stop]
        frames = np.repeat(np.arange(stop - first), size)
        # A frame ends with its row: count back from there.
        positions = np.arange(len(frames)) - (ends[first:stop] - done - 1 - np.arange(first, stop))[frames]
        yield first, stop, positions, frames
        first = stop
