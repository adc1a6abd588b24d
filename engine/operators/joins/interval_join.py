"""The join of rows with equal keys whose event times are close; append-only and final.

A left row looks for right times in [its time + lower, upper]; a right row is found at its time. Each batch looks among
the other side's rows, then waits itself until the watermark says that no partner can come any more.
"""

from collections.abc import Iterable, Iterator, Set

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.connectors.time_range import time_limits
from penstock.engine.core.contract import LATE, MAIN, Emission, Notes, OperatorContext, chunks
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.core.event_time import column_times_us, event_times_us
from penstock.engine.operators.descriptions import Words, expression_text, signed_text
from penstock.engine.operators.joins.interval_rows import IntervalRows
from penstock.engine.operators.joins.join_schema import LATE_RIGHT, keeps_unmatched
from penstock.engine.operators.joins.join_side import Arrived, PairColumns, TimedSide, join_sides, taken
from penstock.engine.operators.joins.pair_sample import PairSample
from penstock.engine.operators.joins.same_keys import same_keys
from penstock.engine.operators.joins.timed_join_schema import event_time, interval_join_output
from penstock.engine.operators.joins.two_sided import SampledDescriptor, join_headline, output_detail
from penstock.engine.operators.ordered_rows import without_late
from penstock.engine.operators.state_descriptions import expression_words, signed_words
from penstock.engine.operators.timed_operator import TimedOperator
from penstock.model.expressions import Expr, columns_of
from penstock.model.job_graph import OperatorNode
from penstock.model.join_specs import IntervalJoinSpec
from penstock.model.keep_rates import STEPS
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Ints

# More than all of time, yet far from overflowing when added to a time.
_LONG_US = 1 << 60
_RATES_APART_US = 1_000_000
"""Stretches of one rate that are less apart are taken for one."""


class IntervalJoin(TimedOperator):
    """Joins rows with equal keys whose event times are within bounds of each other.

    Pairs leave as soon as both rows are there. Rows are counted as folded; one that can have no partner at all (a null
    key, an upper bound that is null or before the lower one) is filtered, or leaves at once on a side whose rows are
    put out without partners. Rows older than the watermark leave through ``late`` (left) and ``late_right``. Of a
    sample of keys a pair leaves at the lesser rate of its two rows.
    """

    def __init__(self, spec: IntervalJoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> None:
        """Check the spec against both inputs and compile keys and bounds.

        Raises:
            PlanError: see `interval_join_output`.
        """
        self._output = interval_join_output(spec, left, right, name)
        self._held_back_us = event_time(spec, left, right)[1]
        self._sample = PairSample(spec, left, right, name, _RATES_APART_US)
        upper = spec.upper if isinstance(spec.upper, Expr) else None
        self._columns = PairColumns(spec.output, self._output.fields)
        self._inputs = join_sides(spec, left, right, name, TimedSide, upper)
        self._lower_us = max(-_LONG_US, min(_LONG_US, spec.lower_us))
        self._upper_us = None if isinstance(spec.upper, Expr) else max(-_LONG_US, min(_LONG_US, spec.upper))
        self._outer = tuple(keeps_unmatched(spec.how, side) for side in (0, 1))
        # A right row has partners while the watermark is at most its time - lower.
        self._ahead_us = (0, self._lower_us)

    def open(self, context: OperatorContext) -> None:
        """Open both sides' rows."""
        super().open(context)
        self._kept = tuple(
            IntervalRows(context.state, name, _kept_fields(side), outer, side.locate_words)
            for name, side, outer in zip(("left", "right"), self._inputs, self._outer, strict=True)
        )
        self._room = np.empty(context.batch_rows, np.int64), np.empty(context.batch_rows, np.int64)
        kept_us = (kept.earliest_us() for kept in self._kept)
        waiting_us = [low_us - self._ahead_us[1 - side] for side, low_us in enumerate(kept_us) if low_us is not None]
        self._sample.open(context, min([self._passed_us, *waiting_us]))

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Keep the batch's rows and emit their pairs with the other side's."""
        counters, side = self.context.counters, self._inputs[port]
        batch = self._sample.kept(port, batch)
        if not batch.rows.num_rows:
            return
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        times_us = event_times_us(batch.rows, side.time)
        late = LATE_RIGHT if port else LATE
        rows, times_us = yield from without_late(batch, times_us, self._passed_us, counters, late)
        arrived = side.arrive(self.context, rows, times_us)
        low, high = self._interval(port, arrived)
        possible = side.with_key(arrived.rows)
        if not port:
            orderly = low <= high
            possible = orderly if possible is None else possible & orderly
        if possible is not None and not possible.all():
            alone = arrived.filter(~possible)
            if self._outer[port]:
                counters.passed += alone.rows.num_rows
                hashes = side.hashes(alone.rows) if self._sample else None
                yield from self._emit_alone(port, alone.rows, low[~possible], hashes)
            else:
                counters.filtered += alone.rows.num_rows
            arrived, low, high = arrived.filter(possible), low[possible], high[possible]
        counters.folded += arrived.rows.num_rows
        if arrived.rows.num_rows:
            yield from self._join(port, batch, arrived.rows, low, high)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Emit the rows whose time for partners is over, if their side is outer, and let go of such rows."""
        self._passed_us = time_us
        for side, kept in enumerate(self._kept):
            before_us = max(START_OF_TIME_US, min(END_OF_TIME_US, time_us + self._ahead_us[side]))
            lonely = kept.lonely(before_us)
            if lonely.size:
                hashes = self._inputs[side].hashes_of(kept.words(lonely)) if self._sample else None
                rows = kept.take(lonely, self._inputs[side].needed)
                yield from self._emit_alone(side, rows, kept.low(lonely), hashes)
            kept.let_go(before_us)
        if self._upper_us is not None:
            self._sample.forget(time_us - max(0, self._upper_us, -self._lower_us))

    def notes(self) -> Notes:
        """Return the watermark, and the rates of the rows that wait."""
        return {**super().notes(), **self._sample.notes()}

    def output_watermark(self, time_us: int) -> int:
        """Hold the watermark back by how much older than it a row may be that is yet to leave."""
        if time_us == END_OF_TIME_US:
            return time_us
        return max(START_OF_TIME_US, time_us - self._held_back_us)

    def due_us(self) -> int | None:
        """Return the watermark at which the first row leaves without a partner, or all of a side are let go."""
        sides = zip(self._kept, self._ahead_us, strict=True)
        due_us = [before_us - ahead_us for kept, ahead_us in sides if (before_us := kept.due_us()) is not None]
        return max(START_OF_TIME_US, min(*due_us, END_OF_TIME_US)) if due_us else None

    def _interval(self, port: int, arrived: Arrived) -> tuple[Ints, Ints]:
        """Return the first and last time of the other side's that each row can be joined with, seen from the right."""
        if port:
            return arrived.times_us, arrived.times_us
        low = arrived.times_us + self._lower_us
        if self._upper_us is not None:
            return low, arrived.times_us + self._upper_us
        return low, _last_times_us(arrived.beside) if arrived.beside is not None else low

    def _join(self, port: int, batch: Batch, rows: pa.RecordBatch, low: Ints, high: Ints) -> Iterator[Emission]:
        side, own, other = self._inputs[port], self._kept[port], self._kept[1 - port]
        words = side.words(rows)
        first = 0
        if self._outer[port]:
            first = own.add(rows, words, low, high)
        else:
            own.add(*self._awaited(port, batch.opposite_us, rows, words, low, high))
        others = self._inputs[1 - port]
        keys = None if side.exact else side.encode(rows)
        for positions, numbers in other.partners(words, low, high, self._room):
            if keys is not None:
                same = same_keys(keys.take(positions), others.encode(other.take(numbers, others.keys)))
                if not same.all():
                    positions, numbers = positions[same], numbers[same]
            if self._outer[port]:
                own.meet(positions + first)
            other.meet(numbers)
            if not self._sample:
                yield MAIN, batch.with_rows(self._pairs(port, rows, positions, numbers))
                continue
            limits = np.minimum(self._limits(port, low[positions]), self._limits(1 - port, other.low(numbers)))
            for places, limit, buckets in self._sample.parts(limits, side.hashes_of(words[positions])):
                chosen = slice(None) if places is None else places
                pairs = self._pairs(port, rows, positions[chosen], numbers[chosen], buckets)
                yield MAIN, Batch(pairs, limit / STEPS, batch.ingest_ns, batch.opposite_us)

    def _pairs(
        self, port: int, rows: pa.RecordBatch, positions: Ints, numbers: Ints, buckets: pa.Array | None = None
    ) -> pa.RecordBatch:
        """Return the pairs of rows at these positions, of a side, with rows of the other one's."""
        others = self._inputs[1 - port]
        ours = taken(rows.select(self._inputs[port].needed), positions)
        theirs = self._kept[1 - port].take(numbers, others.needed)
        left, right = (theirs, ours) if port else (ours, theirs)
        return self._columns.build(left, right, numbers.size, buckets)

    def _limits(self, side: int, low: Ints) -> Ints:
        """Return the rate of rows of a side, in steps, by the first times of their intervals."""
        times_us = low if side else low - self._lower_us
        return self._sample.least(side, times_us, times_us)

    def _awaited(
        self, port: int, opposite_us: int, rows: pa.RecordBatch, words: Ints, low: Ints, high: Ints
    ) -> tuple[pa.RecordBatch, Ints, Ints, Ints]:
        """Return the rows for which partners can still come: of a stream that runs behind the other that is none."""
        awaited = high >= max(START_OF_TIME_US, min(END_OF_TIME_US, opposite_us + self._ahead_us[port]))
        if awaited.all():
            return rows, words, low, high
        return rows.filter(pa.array(awaited)), words[awaited], low[awaited], high[awaited]

    def _emit_alone(
        self, side: int, rows: pa.RecordBatch, low: Ints, hashes: NDArray[np.uint64] | None
    ) -> Iterator[Emission]:
        """Emit rows of a side without partners; ``hashes`` are of their keys if they are a sample."""
        if hashes is None:
            yield from self._put_out(side, rows, STEPS)
            return
        for places, limit, buckets in self._sample.parts(self._limits(side, low), hashes):
            yield from self._put_out(side, rows if places is None else taken(rows, places), limit, buckets)

    def _put_out(
        self, side: int, rows: pa.RecordBatch, limit: int, buckets: pa.Array | None = None
    ) -> Iterator[Emission]:
        joined = self._columns.build(None if side else rows, rows if side else None, rows.num_rows, buckets)
        for part in chunks(joined, self.context.batch_rows):
            yield MAIN, Batch(part, limit / STEPS, self._ingest_ns)


def _kept_fields(side: TimedSide) -> pa.Schema:
    """Return the columns that are kept: without the keys, where these are known by their words."""
    return pa.schema([side.fields.field(name) for name in side.needed]) if side.exact else side.fields


def _last_times_us(column: pa.Array) -> Ints:
    """Return upper bounds in microseconds: none comes before any time, one out of range is the end of the range."""
    unit = column.type.unit
    least, greatest = time_limits(unit)
    raw = np.asarray(column.fill_null(0).cast(pa.int64())) if column.null_count else np.asarray(column.cast(pa.int64()))
    bounded = pa.array(raw.clip(least, greatest)).cast(column.type)
    times_us = column_times_us(bounded)
    if not column.null_count:
        return times_us
    return np.where(np.asarray(column.is_valid()), times_us, START_OF_TIME_US)


class IntervalJoinDescriptor(SampledDescriptor[IntervalJoinSpec]):
    """Rows of equal keys meet if their event times are close."""

    spec = IntervalJoinSpec
    verb = "interval_join"
    operator = IntervalJoin
    output = staticmethod(interval_join_output)

    def read_beside(self, spec: IntervalJoinSpec, side: int, schema: StreamSchema) -> Set[str]:
        """Add what the bound reads of the left side."""
        bound = columns_of(spec.upper) if side == 0 and isinstance(spec.upper, Expr) else frozenset()
        return super().read_beside(spec, side, schema) | bound

    def samples_keys(self, spec: IntervalJoinSpec, port: int) -> bool:
        """Return whether no row of the other side leaves for want of a partner here."""
        return not keeps_unmatched(spec.how, 1 - port)

    def traits(self, spec: IntervalJoinSpec) -> dict[str, str]:
        """Return the bounds."""
        upper = expression_words(spec.upper) if isinstance(spec.upper, Expr) else signed_words(spec.upper)
        return {"between": f"{signed_words(spec.lower_us)} and {upper}"}

    def words(self, spec: IntervalJoinSpec, node: OperatorNode) -> Words:
        """Say on which keys, within which bounds."""
        upper = expression_text(spec.upper) if isinstance(spec.upper, Expr) else signed_text(spec.upper)
        headline = join_headline("interval join", spec.how, spec.left_keys, spec.right_keys)
        return Words(headline, (("between", f"{signed_text(spec.lower_us)} and {upper}"), output_detail(spec.output)))


INTERVAL_JOIN = IntervalJoinDescriptor()
