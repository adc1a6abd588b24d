"""The join of every left row with the last right row of its key that is not newer; in order of time.

Rows of both sides wait until the watermark has passed them; then both are walked together in order of time. Of the
right rows that were passed the last one of each key is kept.
"""

from collections.abc import Iterable, Iterator, Set

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import LATE, MAIN, Emission, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.kernels.asof import LastRows, TimedRows, last_before
from penstock.engine.kernels.order import mark_ties
from penstock.engine.operators.descriptions import Words
from penstock.engine.operators.joins.join_schema import LATE_RIGHT, key_types, side_columns
from penstock.engine.operators.joins.join_side import PairColumns, TimedSide
from penstock.engine.operators.joins.timed_join_schema import asof_join_output
from penstock.engine.operators.joins.two_sided import TwoSidedDescriptor, join_headline, output_detail
from penstock.engine.operators.ordered_rows import break_ties, without_late
from penstock.engine.operators.row_chunks import ChunkRows, RowChunks
from penstock.engine.operators.state_descriptions import duration_words
from penstock.engine.operators.timed_operator import TimedOperator
from penstock.model.durations import format_microseconds
from penstock.model.job_graph import OperatorNode
from penstock.model.join_specs import AsOfJoinSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import INTEGER, FixedColumn, TableSpec

_SPARE_KEYS = 4_096
# More than all of time, yet far from overflowing when added to a time.
_LONG_US = 1 << 60


class AsOfJoin(TimedOperator):
    """Joins every left row with the last right row of its key; a left row leaves once both sides have passed it.

    Rows are counted as folded. One with a null key is filtered where it would leave no trace: on the right, and on the
    left of an inner join. Rows older than the watermark leave through ``late`` (left) and ``late_right``. Without a
    tolerance the last right row of every key is kept for ever.
    """

    def __init__(self, spec: AsOfJoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> None:
        """Check the spec against both inputs and compile the keys.

        Raises:
            PlanError: see `asof_join_output`.
        """
        self._output = asof_join_output(spec, left, right, name)
        self._columns = PairColumns(spec.output, self._output.fields)
        self._inner = spec.how == "inner"
        self._tolerance_us = -1 if spec.tolerance_us is None else min(spec.tolerance_us, _LONG_US)
        types = key_types(spec, left, right, name)
        self._right_columns = side_columns(spec, 1)
        # Right rows of one time are told apart by all their columns.
        self._inputs = (
            TimedSide(left, side_columns(spec, 0), spec.left_keys, types, name),
            TimedSide(right, right.fields.names, spec.right_keys, types, name),
        )
        self._swept_keys = 0

    def open(self, context: OperatorContext) -> None:
        """Open what waits on both sides and the last right row of each key."""
        super().open(context)
        self._waiting = tuple(
            RowChunks(context.state, name, side.fields, locate=side.locate)
            for side, name in zip(self._inputs, ("left", "right"), strict=True)
        )
        # What was passed is the last of its key.
        self._waiting[1].forget_below(self._passed_us)
        columns = {"newest": FixedColumn(np.dtype(np.int64), refers="right", base=1), "newest_us": INTEGER}
        self._last = context.state.table(TableSpec("last", self._inputs[1].codec.types, columns))

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Let the rows wait that are not late."""
        counters, side = self.context.counters, self._inputs[port]
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        times_us = event_times_us(batch.rows, side.time)
        late = LATE_RIGHT if port else LATE
        rows, times_us = yield from without_late(batch, times_us, self._passed_us, counters, late)
        arrived = side.arrive(self.context, rows, times_us)
        with_key = side.with_key(arrived.rows) if port or self._inner else None
        if with_key is not None:
            counters.filtered += int(np.count_nonzero(~with_key))
            arrived = arrived.filter(with_key)
        counters.folded += arrived.rows.num_rows
        self._waiting[port].add(arrived.rows, arrived.times_us)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Emit the left rows that this passes; forget right rows that no later one can be joined with."""
        self._passed_us = time_us
        left, right = (ChunkRows.concat(waiting.below(time_us)).in_order() for waiting in self._waiting)
        for waiting in self._waiting:
            waiting.forget_below(time_us)
        for left_rows, right_rows in _together(left.at, right.at, self.context.batch_rows):
            yield from self._join(left.take(left_rows), right.take(right_rows))
        if time_us == END_OF_TIME_US:
            self._forget(self._last.live())
        elif self._tolerance_us >= 0:
            self._forget_old_keys(time_us)

    def due_us(self) -> int | None:
        """Return the watermark that passes the first row that waits; last rows are kept to the end of time."""
        first_us = [at for waiting in self._waiting if (at := waiting.first()) is not None]
        if first_us:
            return min(*first_us, END_OF_TIME_US - 1) + 1
        return END_OF_TIME_US if self._last.statistics().rows else None

    def _join(self, left: ChunkRows, right: ChunkRows) -> Iterator[Emission]:
        """Emit these left rows, given all right rows up to the last of them, and let go of what is done with."""
        right_slots = np.empty(0, np.int64)
        if right.ids.size:
            # An upsert may move slots, so it comes before the left side's look-up.
            keys = self._waiting[1].take(right.ids, self._inputs[1].keys)
            right_slots = self._last.upsert(self._inputs[1].encode(keys)).slots
            right = self._break_ties(right, right_slots)
        rows = self._waiting[0].take(left.ids)
        left_slots = self._slots(rows)
        partners, replaced = np.empty(left.ids.size, np.int64), np.empty(right.ids.size, np.int64)
        sides = (_timed(left, left_slots), _timed(right, right_slots))
        last = LastRows(self._last.array("newest"), self._last.array("newest_us"))
        count = last_before(*sides, self._tolerance_us, last, partners, replaced)
        yield from self._emit(rows, partners)
        self._waiting[0].remove(left.ids)
        self._waiting[1].remove(replaced[:count])

    def _break_ties(self, right: ChunkRows, slots: Ints) -> ChunkRows:
        """Return the right rows with those of one time and slot in the order of their columns."""
        groups, group_count = _numbered(slots)
        tied = np.flatnonzero(mark_ties(read_only(right.at), read_only(groups), group_count))
        if not tied.size:
            return right
        ids = right.ids.copy()
        rows = self._waiting[1].take(ids[tied])
        ids[tied] = ids[tied][break_ties(rows, np.arange(tied.size), right.at[tied], groups[tied])]
        return ChunkRows(ids, right.at, right.words)

    def _slots(self, rows: pa.RecordBatch) -> Ints:
        """Return the slot of each left row's key, -1 where it has none."""
        if not rows.num_rows:
            return np.empty(0, np.int64)
        slots = self._last.find(self._inputs[0].encode(rows))
        with_key = self._inputs[0].with_key(rows)
        return slots if with_key is None else np.where(with_key, slots, -1)

    def _emit(self, left: pa.RecordBatch, partners: Ints) -> Iterator[Emission]:
        matched = partners >= 0
        if self._inner and not matched.all():
            left, partners = left.filter(pa.array(matched)), partners[matched]
            matched = np.ones(partners.size, np.bool_)
        batch_rows = self.context.batch_rows
        for start in range(0, partners.size, batch_rows):
            part = slice(start, start + batch_rows)
            right = self._right(partners[part], matched[part])
            pairs = self._columns.build(left.slice(start, batch_rows), right, partners[part].size)
            yield MAIN, Batch(pairs, ingest_ns=self._ingest_ns)

    def _right(self, ids: Ints, matched: Mask) -> pa.RecordBatch:
        """Return the right rows of these ids, nulls where there is none."""
        rows = self._waiting[1].take(ids[matched], self._right_columns)
        if matched.all():
            return rows
        places = pa.array(np.cumsum(matched) - 1, mask=~matched)
        columns = [column.take(places) for column in rows.columns]
        return pa.RecordBatch.from_arrays(columns, names=self._right_columns)

    def _forget_old_keys(self, time_us: int) -> None:
        """Forget keys whose last row is too old to be found, whenever there are twice as many keys as then."""
        if self._last.statistics().rows < 2 * self._swept_keys + _SPARE_KEYS:
            return
        slots = self._last.live()
        old = self._last.array("newest_us")[slots] < time_us - self._tolerance_us
        self._forget(slots[old])
        self._swept_keys = slots.size - int(np.count_nonzero(old))

    def _forget(self, slots: Ints) -> None:
        self._waiting[1].remove(self._last.array("newest")[slots] - 1)
        self._last.remove(slots)


def _timed(rows: ChunkRows, slots: Ints) -> TimedRows:
    return TimedRows(read_only(rows.at), read_only(slots), read_only(rows.ids))


def _together(left: Ints, right: Ints, rows_at_once: int) -> Iterator[tuple[slice, slice]]:
    """Cut two ascending arrays of times at common times, about ``rows_at_once`` rows of each side at a time."""
    start = [0, 0]
    while start[0] < left.size or start[1] < right.size:
        sides = list(zip((left, right), start, strict=True))
        cuts = [times[at + rows_at_once - 1] for times, at in sides if at + rows_at_once <= times.size]
        stop = [int(np.searchsorted(times, min(cuts), side="right")) if cuts else times.size for times, _ in sides]
        yield slice(start[0], stop[0]), slice(start[1], stop[1])
        start = stop


def _numbered(slots: Ints) -> tuple[Ints, int]:
    """Return slots as numbers from 0 on that are not many more than there are rows, and how many those are."""
    if int(slots.max()) < 4 * slots.size + 1_024:
        return slots, int(slots.max()) + 1
    distinct, numbers = np.unique(slots, return_inverse=True)
    return numbers, distinct.size


class AsOfJoinDescriptor(TwoSidedDescriptor[AsOfJoinSpec]):
    """Each left row meets the last right row of its key."""

    spec = AsOfJoinSpec
    verb = "asof_join"
    operator = AsOfJoin
    output = staticmethod(asof_join_output)

    def read_beside(self, spec: AsOfJoinSpec, side: int, schema: StreamSchema) -> Set[str]:
        """Return all of the right side: ties between its rows of one time are decided by all their columns."""
        return frozenset(schema.fields.names) if side else super().read_beside(spec, side, schema)

    def traits(self, spec: AsOfJoinSpec) -> dict[str, str]:
        """Return how old a right row may be."""
        return {"tolerance": duration_words(spec.tolerance_us)}

    def words(self, spec: AsOfJoinSpec, node: OperatorNode) -> Words:
        """Say on which keys, and how old a right row may be."""
        tolerance = "any age" if spec.tolerance_us is None else f"up to {format_microseconds(spec.tolerance_us)} old"
        headline = join_headline("as-of join", spec.how, spec.left_keys, spec.right_keys)
        return Words(headline, (("last row", tolerance), output_detail(spec.output)))


ASOF_JOIN = AsOfJoinDescriptor()
