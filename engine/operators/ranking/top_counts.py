"""Top-n of a changelog: all rows of every key are kept, for any of them may come to be among the first.

Changes wait behind their key's rows until the next emission, which orders the rows of all keys that changed, cancels
what cancels and compares. Called by ``top``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import chunks
from penstock.engine.kernels.entry_blocks import STATE, TOUCHED
from penstock.engine.operators.changelog import weights_of, with_weights
from penstock.engine.operators.ranking.top_blocks import EntryBlocks
from penstock.engine.operators.ranking.top_order import RowOrder, sorted_within
from penstock.engine.operators.ranking.top_ranks import pieces, with_ranks
from penstock.engine.operators.ranking.top_schema import TopPlan
from penstock.state.keys.arrays import Ints
from penstock.state.store import KeyedTable, RowLog, Slots

Computed = Callable[[pa.RecordBatch], pa.RecordBatch]

_WEIGHT, _ID = 0, 1


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The rows of some slots in order: which of ``entries`` each is, its slot's position, weight, and value's number.

    ``starts`` are the first rows of each value, ``net`` what is left of it once its rows have cancelled.
    """

    order: Ints
    groups: Ints
    weights: Ints
    values: Ints
    starts: Ints
    net: Ints


class RankedRowCounts:
    """The rows of every slot with their weights, in order: those of the last emission, then what came since."""

    def __init__(self, plan: TopPlan, log: RowLog, table: KeyedTable, computed: Computed) -> None:
        """Keep rows in this log; ``computed`` evaluates the order's expressions. Slots without rows are removed."""
        self._plan = plan
        self._log = log
        self._table = table
        self._computed = computed
        self._order = RowOrder(plan.input.fields, plan.order, plan.fixed, plan.tie_descending)
        self._blocks = EntryBlocks(1)
        self._shown_end = 0
        self._end = 0

    def __bool__(self) -> bool:
        """Return whether something changed since the last emission."""
        return bool(self._blocks.touched.size)

    def restore(self, rows: pa.RecordBatch, computed: Sequence[pa.Array], slots: Slots, ids: Ints) -> None:
        """Take in rows that the log holds and that count as shown after the last of them, their ids ascending."""
        self._append(rows, slots, ids)

    def restored(self, batch_rows: int) -> None:
        """Bring the rows restored in order; what they show has been shown."""
        for _ in self.emit(batch_rows):
            pass

    def fold(self, rows: pa.RecordBatch, computed: Sequence[pa.Array], slots: Slots) -> None:
        """Take in rows of these slots, with their weights."""
        self._append(rows, slots, self._log.append(rows))

    def emit(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the changelog since the last emission."""
        touched = self._blocks.touched.copy()
        self._blocks.clear_touched()
        self._blocks.heads[touched, STATE] &= ~TOUCHED
        bounds = np.append(0, np.cumsum(self._blocks.sizes(touched)))
        for first, stop in pieces(bounds, 4 * batch_rows):
            slots = touched[np.searchsorted(bounds, first) : np.searchsorted(bounds, stop)]
            yield from self._emit(slots, batch_rows)
        self._shown_end = self._end

    def _append(self, rows: pa.RecordBatch, slots: Slots, ids: Ints) -> None:
        self._blocks.cover(slots)
        self._blocks.append(slots, weights_of(rows).astype(np.int64)[None, :], ids)
        self._end = int(ids[-1]) + 1

    def _emit(self, slots: Slots, batch_rows: int) -> Iterator[pa.RecordBatch]:
        groups, entries = self._blocks.gather(slots)
        kept = self._log.take(np.ascontiguousarray(entries[:, _ID]))
        rows = pa.RecordBatch.from_arrays(kept.columns[:-1], schema=self._plan.input.fields)
        order, values = sorted_within(groups, self._order.exact(self._computed(rows).columns, rows))
        starts = np.flatnonzero(np.diff(values, prepend=-1))
        weights = entries[order, _WEIGHT]
        ordered = _Sorted(order, groups[order], weights, values, starts, np.add.reduceat(weights, starts))
        changes = self._changes(ordered, groups, entries)
        bounds = np.append(0, np.flatnonzero(np.diff(changes[:, 0])) + 1)
        bounds = np.append(bounds, len(changes)) if len(changes) else np.zeros(1, np.int64)
        for first, stop in pieces(bounds, batch_rows):
            part = changes[first:stop]
            changed = with_ranks(rows.take(pa.array(part[:, 3])), self._plan, part[:, 2])
            yield from chunks(with_weights(changed, part[:, 1].astype(np.int8)), batch_rows)
        self._compact(slots, ordered, entries)

    def _changes(self, ordered: _Sorted, groups: Ints, entries: Ints) -> Ints:
        """Return what differs from what was shown: (position of the slot, weight, rank, row), by slot and weight."""
        limit = self._plan.rows
        # What was shown are the first rows with a positive weight, which lie in order at the front.
        value_of = np.empty(groups.size, np.int64)
        value_of[ordered.order] = ordered.values
        before = np.flatnonzero((entries[:, _ID] < self._shown_end) & (entries[:, _WEIGHT] > 0))
        before_ranks = _ranks(groups[before])
        before, before_ranks = before[before_ranks <= limit], before_ranks[before_ranks <= limit]
        present = np.flatnonzero(ordered.net > 0)
        now = np.repeat(present, np.minimum(ordered.net[present], limit))
        now_groups = ordered.groups[ordered.starts[now]]
        now_ranks = _ranks(now_groups)
        first = now_ranks <= limit
        now, now_groups, now_ranks = now[first], now_groups[first], now_ranks[first]
        shown, hidden = value_of[before], np.ones(before.size, np.bool_)
        new = np.ones(now.size, np.bool_)
        if self._plan.ranked:
            old_places, places = groups[before] * limit + before_ranks, now_groups * limit + now_ranks
            _, one, other = np.intersect1d(old_places, places, assume_unique=True, return_indices=True)
            same = shown[one] == now[other]
            hidden[one[same]] = False
            new[other[same]] = False
        else:
            count = ordered.net.size
            both = np.minimum(np.bincount(shown, minlength=count), np.bincount(now, minlength=count))
            hidden = _occurrence(shown) >= both[shown]
            new = _occurrence(now) >= both[now]
        row_of = ordered.order[ordered.starts]
        changes = np.concatenate(
            [
                _columns(groups[before[hidden]], -1, before_ranks[hidden], row_of[shown[hidden]]),
                _columns(now_groups[new], 1, now_ranks[new], row_of[now[new]]),
            ]
        )
        return changes[np.lexsort((changes[:, 2], changes[:, 1], changes[:, 0]))]

    def _compact(self, slots: Slots, ordered: _Sorted, entries: Ints) -> None:
        """Keep of every value as many rows as are left, the oldest, in order; forget slots that have none."""
        net = ordered.net[ordered.values]
        matching = np.sign(net) == ordered.weights
        number = np.cumsum(matching)
        number -= (number - matching)[ordered.starts][ordered.values]
        stays = matching & (number <= np.abs(net))
        written = entries[ordered.order[stays]]
        groups = ordered.groups[stays]
        self._blocks.write(slots, groups, written)
        self._log.remove(np.sort(entries[ordered.order[~stays], _ID]))
        self._table.remove(np.setdiff1d(slots, slots[groups]))


def _ranks(groups: Ints) -> Ints:
    """Number the rows of each group, which ascend, from 1."""
    ranks: Ints = np.arange(1, groups.size + 1) - np.searchsorted(groups, groups)
    return ranks


def _occurrence(values: Ints) -> Ints:
    """Number equal values from 0 in their order."""
    order = np.argsort(values, kind="stable")
    occurrence = np.empty(values.size, np.int64)
    occurrence[order] = _ranks(values[order]) - 1
    return occurrence


def _columns(groups: Ints, weight: int, ranks: Ints, rows: Ints) -> Ints:
    return np.column_stack([groups, np.full(groups.size, weight, np.int64), ranks, rows])
