"""Top-n of append-only rows: of every key only the first rows are kept, in order; what cannot be among them is dropped.

Comparing words decides nearly always; keys with rows that tie in all of them are put in order exactly. Called by
``top``.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.contract import chunks
from penstock.engine.kernels.entry_blocks import (
    CHANGED_SLOTS,
    DEFERRED_ROWS,
    DROPPED_ROWS,
    LOST,
    LOST_ROWS,
    STATE,
    TWINS,
)
from penstock.engine.kernels.ranking import RankedArrays, list_changes, rank_rows
from penstock.engine.operators.changelog import consolidate, with_weights
from penstock.engine.operators.ranking.top_blocks import EntryBlocks
from penstock.engine.operators.ranking.top_order import RowOrder, sorted_within
from penstock.engine.operators.ranking.top_schema import TopPlan
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import RowLog, Slots

Computed = Callable[[pa.RecordBatch], pa.RecordBatch]

# A batch of which this part stays is kept whole, and the rest removed from it: that copies nothing.
_KEPT_WHOLE = 0.5
# Putting a row among more than so many others costs more than sorting them all.
_MOST_MOVED = 2_048
# A removal looks at every chunk of the log, so small ones wait for others, at most until the next emission.
_REMOVED_AT_ONCE = 131_072


class RankedRows:
    """The first rows of every slot; rows that fell out stay in the log while they are shown."""

    def __init__(self, plan: TopPlan, log: RowLog, computed: Computed) -> None:
        """Keep rows in this log; ``computed`` evaluates the order's expressions."""
        self._plan = plan
        self._log = log
        self._computed = computed
        self._order = RowOrder(plan.input.fields, plan.order, plan.fixed, plan.tie_descending)
        self._blocks = EntryBlocks(self._order.width, plan.rows)
        self._lost = np.empty((0, 2), np.int64)
        self._removed: list[Ints] = []
        self._removed_rows = 0
        # Rows with lower ids are in the log because they were among the first at the last emission.
        self._shown_end = 0
        self._end = 0

    def __bool__(self) -> bool:
        """Return whether something changed since the last emission."""
        return bool(self._blocks.touched.size)

    def restore(self, rows: pa.RecordBatch, computed: Sequence[pa.Array], slots: Slots, ids: Ints) -> None:
        """Take in rows that the log holds and that have been shown, their ids ascending."""
        self._fold(rows, computed, slots, ids)
        self._list_changes()
        self._shown_end = self._end = int(ids[-1]) + 1

    def fold(self, rows: pa.RecordBatch, computed: Sequence[pa.Array], slots: Slots) -> None:
        """Take in rows of these slots; ``computed`` are the order's expressions over them."""
        self._fold(rows, computed, slots, None)

    def emit(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the changelog since the last emission."""
        changes, weights, bounds, twins = self._list_changes()
        consolidating = twins and self._plan.ranked
        for first, stop in pieces(bounds, batch_rows):
            rows = self._log.take(np.ascontiguousarray(changes[first:stop, 0]))
            rows = with_ranks(rows, self._plan, changes[first:stop, 1])
            rows = with_weights(rows, weights[first:stop])
            yield from chunks(consolidate(rows) if consolidating else rows, batch_rows)
        self._remove(self._lost[: self._blocks.counts[LOST_ROWS], 0].copy(), at_once=True)
        self._blocks.counts[LOST_ROWS] = 0
        self._shown_end = self._end

    def _list_changes(self) -> tuple[Ints, NDArray[np.int8], Ints, bool]:
        """Return changes (id, rank), weights and where each slot's changes end; no slot is touched any more."""
        blocks = self._blocks
        touched = blocks.touched
        most = int(blocks.counts[LOST_ROWS]) + (2 if self._plan.ranked else 1) * int(blocks.sizes(touched).sum())
        changes, weights = np.empty((most, 2), np.int64), np.empty(most, np.int8)
        bounds = np.zeros(touched.size + 1, np.int64)
        twins = list_changes(
            read_only(touched),
            self._plan.ranked,
            self._shown_end,
            read_only(self._lost),
            blocks.arrays,
            changes,
            weights,
            bounds,
        )
        blocks.clear_touched()
        return changes[: bounds[-1]], weights[: bounds[-1]], bounds, twins

    def _fold(self, rows: pa.RecordBatch, computed: Sequence[pa.Array], slots: Slots, ids: Ints | None) -> None:
        blocks = self._blocks
        blocks.cover(slots)
        for place in self._order.widen(computed, rows):
            blocks.widen(place)
        self._reserve_lost(rows.num_rows)
        alive = np.zeros(rows.num_rows, np.bool_)
        changed = blocks.changed_room(rows.num_rows)
        if self._plan.rows <= _MOST_MOVED:
            deferred, dropped = self._rank(read_only(self._order.words(computed, rows)), slots, alive, changed)
        else:
            deferred, dropped = np.arange(rows.num_rows), np.empty(0, np.int64)
        removed = [dropped]
        if deferred.size:
            removed.append(self._settle(rows, slots, deferred, alive, changed))
        blocks.name(self._keep(rows, alive) if ids is None else ids)
        self._remove(np.concatenate(removed))

    def _rank(self, words: Ints, slots: Slots, alive: Mask, changed: Ints) -> tuple[Ints, Ints]:
        """Put rows among the first by their words; return the rows that need more, and ids nobody was shown that go."""
        blocks, counts = self._blocks, self._blocks.counts
        counts[[DEFERRED_ROWS, DROPPED_ROWS]] = 0
        slots = read_only(slots)
        deferred, dropped = np.empty(slots.size, np.int64), np.empty(slots.size, np.int64)
        listed = RankedArrays(alive, changed, deferred, self._lost, dropped)
        limit, complete, shown_end = self._plan.rows, self._order.complete, self._shown_end
        blocks.fill(
            lambda at: rank_rows(at, slots, words, limit, complete, shown_end, blocks.arrays, listed), slots.size
        )
        return deferred[: counts[DEFERRED_ROWS]], dropped[: counts[DROPPED_ROWS]]

    def _keep(self, rows: pa.RecordBatch, alive: Mask) -> Ints:
        """Put the rows that are ``alive`` into the log; return ids by row."""
        kept = np.flatnonzero(alive)
        if kept.size >= _KEPT_WHOLE * alive.size:
            ids = self._log.append(rows)
            self._remove(ids[~alive])
        else:
            ids = np.empty(alive.size, np.int64)
            ids[kept] = self._log.append(rows.take(pa.array(kept)))
        if kept.size:
            self._end = int(ids[kept[-1]]) + 1
        return ids

    def _settle(self, rows: pa.RecordBatch, slots: Slots, deferred: Ints, alive: Mask, changed: Ints) -> Ints:
        """Put slots with deferred rows in their exact order; return the ids that nobody has been shown and that go."""
        blocks, limit = self._blocks, self._plan.rows
        chosen, deferred_groups = np.unique(slots[deferred], return_inverse=True)
        groups, entries = blocks.gather(chosen)
        ids = np.concatenate([entries[:, -1], -1 - deferred])
        groups = np.concatenate([groups, deferred_groups])
        kept_before, new = np.flatnonzero(ids >= 0), np.flatnonzero(ids < 0)
        members = pa.concat_batches([self._log.take(ids[kept_before]), rows.take(pa.array(-1 - ids[new]))])
        # Of equal rows those kept before come first, in the order they had.
        ids, groups = (np.concatenate([part[kept_before], part[new]]) for part in (ids, groups))
        computed = self._computed(members).columns
        order, numbers = sorted_within(groups, self._order.exact(computed, members))
        ids, groups = ids[order], groups[order]
        heads = blocks.heads
        heads[chosen[groups[1:][np.diff(numbers) == 0]], STATE] |= TWINS
        place = np.arange(ids.size) - np.searchsorted(groups, groups)
        stays = place < limit
        alive[-1 - ids[ids < 0]] = stays[ids < 0]
        words = self._order.words(computed, members).T[order[stays]]
        blocks.write(chosen, groups[stays], np.column_stack([words, ids[stays]]))
        # Slots may be listed twice; a row makes its slot be listed at most once.
        fresh = np.unique(groups[stays & (ids < 0)])
        listed = blocks.counts[CHANGED_SLOTS]
        changed[listed : listed + fresh.size] = chosen[fresh]
        blocks.counts[CHANGED_SLOTS] += fresh.size
        removed = ~stays & (ids >= 0)
        shown = removed & (ids < self._shown_end)
        self._lose(chosen[groups[shown]][::-1], ids[shown][::-1])
        return ids[removed & ~shown]

    def _lose(self, slots: Slots, ids: Ints) -> None:
        """Chain rows that were shown and are none of the first any more; a slot's lie together, the last row first."""
        if not ids.size:
            return
        heads, counts = self._blocks.heads, self._blocks.counts
        first = int(counts[LOST_ROWS])
        places = np.arange(first + 1, first + ids.size + 1)
        again = np.append(False, slots[1:] == slots[:-1])
        self._lost[first : first + ids.size, 0] = ids
        self._lost[first : first + ids.size, 1] = np.where(again, places - 1, heads[slots, LOST])
        ends = np.append(slots[1:] != slots[:-1], True)
        heads[slots[ends], LOST] = places[ends]
        counts[LOST_ROWS] += ids.size

    def _remove(self, ids: Ints, at_once: bool = False) -> None:
        """Let the log forget rows, many at a time."""
        if ids.size:
            self._removed.append(ids)
            self._removed_rows += ids.size
        if self._removed and (at_once or self._removed_rows >= _REMOVED_AT_ONCE):
            self._log.remove(np.concatenate(self._removed))
            self._removed, self._removed_rows = [], 0

    def _reserve_lost(self, rows: int) -> None:
        used = int(self._blocks.counts[LOST_ROWS])
        if used + rows > len(self._lost):
            lost = np.empty((2 * (used + rows), 2), np.int64)
            lost[:used] = self._lost[:used]
            self._lost = lost


def with_ranks(rows: pa.RecordBatch, plan: TopPlan, ranks: Ints) -> pa.RecordBatch:
    """Return the rows with their ranks as the last column, if the plan asks for one."""
    if not plan.ranked:
        return rows
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(ranks)], schema=plan.output.fields)


def pieces(bounds: Ints, rows: int) -> Iterator[tuple[int, int]]:
    """Cut [0, bounds[-1]) at bounds, which begin with 0, into pieces of at most ``rows``, or of one slot's changes."""
    start, end = 0, int(bounds[-1])
    while start < end:
        at = int(np.searchsorted(bounds, start + rows, side="right")) - 1
        stop = int(bounds[at])
        if stop <= start:
            stop = int(bounds[np.searchsorted(bounds, start, side="right")])
        yield start, stop
        start = stop
