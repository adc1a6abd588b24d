"""Open tumbling and hopping windows as panes: a row is folded once, a window merges its panes when it is over.

Everything is done for all windows that one watermark closes together, never window by window.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import OperatorContext
from penstock.engine.kernels.panes import PAIR_ROWS, GroupPlaces, PaneCells, combine_panes, count_pairs
from penstock.engine.operators.aggregates.aggregate_input import EvaluatedRows
from penstock.engine.operators.aggregates.aggregate_schema import AggregatePlan
from penstock.engine.operators.aggregates.pane_windows import PaneWindows
from penstock.engine.operators.aggregates.window_state import UnplacedRows, WindowState
from penstock.engine.operators.merge_groups import ScratchGroups
from penstock.state.keys.arrays import Ints, read_only
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import Slots
from penstock.state.tables.grouping import KeyGrouper

_PAIRS_AT_ONCE = 1 << 16


class PaneState(WindowState):
    """Accumulators per (pane, key)."""

    def __init__(self, plan: AggregatePlan, context: OperatorContext, windows: PaneWindows, watermark_us: int) -> None:
        super().__init__(plan, context)
        self._windows = windows
        self._open_from = windows.open_from(watermark_us)
        self._codec = KeyCodec(plan.key_types)
        self._grouper = KeyGrouper()
        self._scratch = ScratchGroups(context.state, plan.aggregation)
        # Kept, because fresh memory costs more than what is written to it.
        self._pairs = np.empty((PAIR_ROWS, 0), np.int64)

    def fold(self, evaluated: EvaluatedRows, at_us: Ints, times_us: Ints | None, watermark_us: int) -> UnplacedRows:
        """Fold every row into its pane."""
        panes, smallest = self._windows.panes(at_us)
        needed_from = self._windows.first_pane(self._open_from)
        late = None
        if smallest < needed_from:
            late = panes < needed_from
            kept = np.flatnonzero(~late)
            if not len(kept):
                return UnplacedRows(late)
            evaluated, panes = evaluated.take(kept), panes[kept]
            times_us = None if times_us is None else times_us[kept]
        evaluated.fold(self.locate(evaluated, panes), times_us, self.cells)
        return UnplacedRows(late)

    def results(self, watermark_us: int) -> Iterator[pa.RecordBatch]:
        """Yield windows by their end."""
        first, end = self._open_from, self._windows.open_from(watermark_us)
        if end <= first:
            return
        self._open_from = end
        oldest = self.table.first_prefix()
        if oldest is None:
            return
        first = max(first, self._windows.first_window(oldest))
        if first >= end:
            return
        windows = self._windows
        needed_from = windows.first_pane(end)
        if windows.per_window == 1:
            slots = self.table.slots_below(needed_from)
            yield from self.show(self.shown(slots))
            self.table.remove(slots)
        else:
            slots = self.table.slots_between(windows.first_pane(first), windows.end_pane(end - 1))
            panes = self.table.prefixes(slots)
            yield from self._merged(read_only(slots), read_only(panes), first, end)
            self.table.remove(slots[: np.searchsorted(panes, needed_from)])

    def next_us(self) -> int | None:
        """Return when the earliest window with rows is over."""
        oldest = self.table.first_prefix()
        if oldest is None:
            return None
        return self._windows.over_at_us(max(self._open_from, self._windows.first_window(oldest)))

    def release(self) -> None:
        """Give back what only results needed."""
        self._scratch.release()
        self._pairs = np.empty((PAIR_ROWS, 0), np.int64)

    def places(self, slots: Slots) -> tuple[list[pa.Array], tuple[Ints, ...]]:
        """Return keys and bounds of panes that are windows."""
        return self.table.key_columns(slots), self._bounds_us(self.table.prefixes(slots))

    def _bounds_us(self, windows: Ints) -> tuple[Ints, Ints]:
        ends_us = self._windows.ends_of(windows)
        return ends_us - self._windows.size_us, ends_us

    def _merged(self, slots: Slots, panes: Ints, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield windows first..end-1, each merged from its panes; slots come in the order of their panes."""
        keys = self._codec.encode(self.table.key_columns(slots), len(slots))
        groups, firsts = self._grouper.group(keys)
        cells = PaneCells(panes, slots, read_only(groups))
        shape = self._windows.per_hop, self._windows.per_window
        end = min(end, int(panes[-1]) // self._windows.per_hop + 1)
        scratch = GroupPlaces(np.full(len(firsts), first - 1), np.empty(len(firsts), np.int64))
        while first < end:
            pairs, stop = count_pairs(panes, first, end - 1, *shape, _PAIRS_AT_ONCE)
            if self._pairs.shape[1] < pairs:
                self._pairs = np.empty((PAIR_ROWS, pairs), np.int64)
            results = combine_panes(cells, first, stop, *shape, scratch, self._pairs)
            into, merged, window, shown = self._pairs
            yield from self._merge(into[:pairs], merged[:pairs], window[:results], shown[:results])
            first = stop

    def _merge(self, into: Ints, merged: Slots, window: Ints, slots: Slots) -> Iterator[pa.RecordBatch]:
        """Merge pairs into one result per window and key, and yield these; ``slots`` know the keys."""
        scratch = self._scratch.take(len(window))
        self._scratch.cells.absorb(self._scratch.slots_of(into), self.cells, merged)
        if self._retracting:
            shown = self._scratch.cells.row_counts(scratch) > 0
            scratch, window, slots = scratch[shown], window[shown], slots[shown]
        for start in range(0, len(window), self.batch_rows):
            part = slice(start, start + self.batch_rows)
            results = self._scratch.cells.results(scratch[part])
            yield self.rows(self.table.key_columns(slots[part]), self._bounds_us(window[part]), results)
