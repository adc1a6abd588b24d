"""One side of an interval join: rows in a log, their intervals and key words beside them, and an index made on demand.

Rows are indexed when the other side first looks for partners among them: those that are let go before never are.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.kernels.intervals import NODE_WORDS, Intervals, find_overlaps, index_intervals, mark_first
from penstock.engine.operators.joins.chains import Pairs, walked
from penstock.engine.operators.joins.deadlines import Deadlines
from penstock.state.keys.arrays import Ints, Mask, grown, read_only, zeros
from penstock.state.store import Positions, StateStore
from penstock.state.tables.image import referring

_WORD, _LOW, _HIGH = (pa.field(name, pa.int64(), nullable=False) for name in ("$word", "$low", "$high"))
_ROW = pa.field("$row", pa.int64(), nullable=False)

_SPARE_ROWS = 32_768
_LEAST_TABLE = 1_024
# Looking a row up among a few costs about an eighth of indexing it, so few must ask, and not too often.
_FEW, _SCANS = 8, 8
# Arrays for up to so many rows are used again: fresh memory costs more than what is written to it.
_KEPT_ROWS = 1 << 19


class IntervalRows:
    """Rows with an interval [low, high] of time each, numbered from 0 on; numbers hold until `let_go`.

    ``outer``: it is kept which rows have had a partner or left without one, so that `lonely` knows the others.
    """

    def __init__(
        self, store: StateStore, name: str, fields: pa.Schema, outer: bool, locate: Callable[[Ints], Positions]
    ) -> None:
        """Open the log ``name`` for rows of these fields; rows it already holds are there again.

        ``locate`` says where the keys of words lie, for a dump only.
        """
        self._columns = fields.names
        self._log_fields = pa.schema([*fields, _WORD, _LOW, _HIGH])

        # The logs must not refer to this object, or only the collector would free all of it.
        def located(rows: pa.RecordBatch) -> Positions:
            return locate(rows.column(_WORD.name).to_numpy())

        self._log = log = store.log(name, self._log_fields, located)

        def located_settled(rows: pa.RecordBatch) -> Positions:
            return located(log.take(rows.column(_ROW.name).to_numpy(), [_WORD.name]))

        self._settled_fields = pa.schema([referring(_ROW, name)])
        settled = f"{name}_settled"
        self._settled = store.log(settled, self._settled_fields, located_settled) if outer else None
        self._count = self._indexed = self._needed = self._scanned = 0
        self._shrink()
        self._clear()
        ids = self._log.live()
        if ids.size:
            kept = self._log.take(ids, [field.name for field in (_WORD, _LOW, _HIGH)])
            matched = None
            if self._settled is not None:
                matched = np.isin(ids, self._settled.take(self._settled.live()).column(0).to_numpy())
            words, low, high = (column.to_numpy() for column in kept.columns)
            self._number(ids, words, low, high, matched)

    def __len__(self) -> int:
        return self._count

    def add(self, rows: pa.RecordBatch, words: Ints, low: Ints, high: Ints) -> int:
        """Keep rows with low[i] <= high[i]; return the number of the first."""
        beside = [_column(words), _column(low), _column(high)]
        columns = [*rows.select(self._columns).columns, *beside]
        ids = self._log.append(pa.RecordBatch.from_arrays(columns, schema=self._log_fields))
        return self._number(ids, words, low, high)

    def partners(self, words: Ints, low: Ints, high: Ints, room: Pairs) -> Iterator[Pairs]:
        """Yield (position in ``words``, number of a row here of the same word whose interval overlaps).

        As many pairs come at a time as there is ``room`` for, which is used again.
        """
        if not self._count or not words.size:
            return
        asking = Intervals(read_only(words), read_only(low), read_only(high))
        kept = self._first(self._count)
        if self._scans(words.size):
            size = 1 << max(4, (2 * words.size).bit_length())
            table, nodes = zeros((size, 2), np.int64), np.empty((words.size, NODE_WORDS), np.int64)
            index_intervals(asking, 0, table, nodes)
            for numbers, positions in _overlaps(kept, table, nodes, room):
                yield positions, numbers
        else:
            self._index()
            yield from _overlaps(asking, self._table, self._nodes, room)

    def _scans(self, probes: int) -> bool:
        """Return whether to look every row here up among a few that ask, rather than index all rows for them.

        Whoever has scanned for as long as an index takes to make, makes it: that is at most twice the best.
        """
        count = self._count
        if probes * _FEW > count or self._scanned + count > _SCANS * (count - self._indexed):
            return False
        self._scanned += count
        return True

    def take(self, numbers: Ints, columns: Sequence[str]) -> pa.RecordBatch:
        """Return these columns of rows."""
        return self._log.take(self._ids[numbers], columns)

    def low(self, numbers: Ints) -> Ints:
        """Return the first times of the intervals of rows."""
        return self._low[numbers]

    def earliest_us(self) -> int | None:
        """Return the least of the first times, None if there are no rows."""
        return int(self._low[: self._count].min()) if self._count else None

    def words(self, numbers: Ints) -> Ints:
        """Return the words of the keys of rows."""
        return self._words[numbers]

    def meet(self, numbers: Ints) -> None:
        """Note that rows have had a partner; nothing unless the side is outer."""
        if self._settled is None:
            return
        fresh = np.empty(numbers.size, np.int64)
        fresh = fresh[: mark_first(read_only(numbers), self._matched, fresh)]
        if fresh.size:
            self._note(fresh)

    def lonely(self, before_us: int) -> Ints:
        """Return the rows that end before a time and have had no partner, in order of their end, each once."""
        if self._settled is None:
            return np.empty(0, np.int64)
        due = self._deadlines.take(before_us)
        lonely = due[~self._matched[due]]
        if self._latest_us >= before_us:
            # Not all rows are let go of now: what is opened again must know that these have left.
            self._matched[lonely] = True
            self._note(lonely)
        return lonely

    def due_us(self) -> int | None:
        """Return the least time before which `lonely` or `let_go` have something to do; None: there are no rows."""
        if not self._count:
            return None
        if self._crowded():
            return START_OF_TIME_US
        first_us = self._deadlines.first()
        return (self._latest_us if first_us is None else first_us) + 1

    def let_go(self, before_us: int) -> None:
        """Forget rows that end before a time: all at once when that is all of them, else now and then in bulk.

        At most half of what is kept, and a batch or so, can be of no more use.
        """
        count = self._count
        if not count:
            return
        if self._latest_us < before_us:
            self._log.remove(self._ids[:count])
            self._forget_settled()
            self._clear()
        elif self._crowded():
            self._collect(before_us)

    def _crowded(self) -> bool:
        return self._count >= 2 * self._needed + _SPARE_ROWS

    def _collect(self, before_us: int) -> None:
        needed = self._high[: self._count] >= before_us
        kept = np.flatnonzero(needed)
        ids, words, low, high = (column[kept] for column in (self._ids, self._words, self._low, self._high))
        matched = self._matched[kept] if self._settled is not None else None
        self._log.remove(self._ids[: self._count][~needed])
        self._forget_settled()
        self._clear()
        self._number(ids, words, low, high, matched)
        self._needed = kept.size
        if matched is not None:
            self._note(np.flatnonzero(matched))

    def _clear(self) -> None:
        self._count = self._indexed = self._needed = self._scanned = 0
        self._latest_us = START_OF_TIME_US
        self._deadlines = Deadlines()
        if self._ids.size > _KEPT_ROWS:
            self._shrink()

    def _shrink(self) -> None:
        self._ids, self._words, self._low, self._high = (np.empty(0, np.int64) for _ in range(4))
        self._matched = np.empty(0, np.bool_)
        self._nodes = np.empty((0, NODE_WORDS), np.int64)
        self._table = np.empty((0, 2), np.int64)

    def _number(self, ids: Ints, words: Ints, low: Ints, high: Ints, matched: Mask | None = None) -> int:
        """Put rows of the log behind the others here; return the number of the first."""
        first, end = self._count, self._count + ids.size
        if not ids.size:
            return first
        self._ids, self._words, self._low, self._high = (
            grown(column, first, end) for column in (self._ids, self._words, self._low, self._high)
        )
        if self._settled is not None:
            self._matched = grown(self._matched, first, end)
        self._ids[first:end], self._words[first:end] = ids, words
        self._low[first:end], self._high[first:end] = low, high
        self._count = end
        self._latest_us = max(self._latest_us, int(high.max()))
        if self._settled is not None:
            lonely = slice(None) if matched is None else ~matched
            self._matched[first:end] = False if matched is None else matched
            self._deadlines.add(self._high[first:end][lonely].copy(), np.arange(first, end)[lonely])
        return first

    def _index(self) -> None:
        """Index the rows that came since."""
        count = self._count
        if self._indexed == count:
            return
        if 2 * count > len(self._table):
            self._table = zeros((max(_LEAST_TABLE, 1 << (2 * count).bit_length()), 2), np.int64)
            self._indexed = 0
        elif not self._indexed:
            self._table[:] = 0
        if count > len(self._nodes):
            nodes = zeros((max(_LEAST_TABLE, 2 * count), NODE_WORDS), np.int64)
            nodes[: self._indexed] = self._nodes[: self._indexed]
            self._nodes = nodes
        index_intervals(self._first(count), self._indexed, self._table, self._nodes)
        self._indexed = count
        self._scanned = 0

    def _first(self, count: int) -> Intervals:
        return Intervals(*(read_only(column[:count]) for column in (self._words, self._low, self._high)))

    def _note(self, numbers: Ints) -> None:
        if self._settled is not None and numbers.size:
            rows = [_column(self._ids[numbers])]
            self._settled.append(pa.RecordBatch.from_arrays(rows, schema=self._settled_fields))

    def _forget_settled(self) -> None:
        if self._settled is not None:
            self._settled.remove(self._settled.live())


def _overlaps(asking: Intervals, table: Ints, nodes: Ints, room: Pairs) -> Iterator[Pairs]:
    """Yield (row that asks, row of the index) pairs."""
    table, nodes = read_only(table), read_only(nodes)
    return walked(lambda row, at: find_overlaps(asking, table, nodes, row, at, *room), room)


def _column(values: Ints) -> pa.Array:
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.int64(), values.size, [None, pa.py_buffer(values)])
