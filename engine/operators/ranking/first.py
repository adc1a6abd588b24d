"""Deduplication: the first row of every key passes, the others do not.

First is by event time once the watermark has passed a row, or by arrival, at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import LATE, MAIN, Emission, OperatorContext, chunks
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.kernels.first_rows import pass_first
from penstock.engine.operators.descriptions import Words, columns_text
from penstock.engine.operators.descriptor import KeyedDescriptor, PlanContext
from penstock.engine.operators.isolate import evaluate
from penstock.engine.operators.key_lookup import KeyLookup
from penstock.engine.operators.ordered_rows import OrderedRows, tie_order, without_late
from penstock.engine.operators.processing_clock import ProcessingClock
from penstock.engine.operators.ranking.first_schema import first_output
from penstock.engine.operators.state_descriptions import duration_words
from penstock.engine.operators.timed_operator import TimedOperator
from penstock.model.durations import format_microseconds
from penstock.model.errors import BugError
from penstock.model.job_graph import OperatorNode
from penstock.model.keyed_specs import FirstSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import NO_INTEGERS, Ints, read_only
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import INTEGER, ColumnSpec, FixedColumn, Slots, TableSpec
from penstock.state.tables.grouping import KeyGrouper

_NEVER = -1


class First(TimedOperator):
    """Passes the first row of every key.

    Rows count as folded while they wait, then as passed or filtered; what comes after the watermark is late, unless
    rows are taken as they arrive. With a ttl a key is forgotten once that much time has gone by since its row: event
    time, or processing time where there is none.
    """

    def __init__(self, spec: FirstSpec, schema: StreamSchema, name: str) -> None:
        """Check the spec against the input and compile the keys.

        Raises:
            PlanError: see `first_output`.
        """
        self._schema = first_output(spec, schema, name)
        self._by_arrival = spec.by_arrival
        self._ttl_us = _NEVER if spec.ttl_us is None else spec.ttl_us
        self._by_clock = self._ttl_us != _NEVER and schema.time is None
        self._projection = compile_projection(spec.keys, schema.fields, name)
        self._codec = KeyCodec(self._projection.schema.types)

    def open(self, context: OperatorContext) -> None:
        """Open the table of keys, the times at which they passed, and the rows that wait."""
        super().open(context)
        columns: dict[str, ColumnSpec] = {"seen": FixedColumn(np.dtype(np.uint8))}
        if self._ttl_us != _NEVER:
            columns["passed_us"] = INTEGER
            self._expiries = context.state.table(TableSpec("expiries", self._codec.types, prefixed=True))
        self._table = context.state.table(TableSpec("keys", self._codec.types, columns))
        self._lookup = KeyLookup(self._table)
        self._grouper = KeyGrouper()
        self._clock = ProcessingClock(context.clock)
        # Rows found waiting count from now on.
        self._ingest_ns = context.clock.monotonic_ns()
        if not self._by_arrival:
            self._waiting = OrderedRows(context.state, "rows", self._schema.fields, context.locate_port(0))

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Pass the first rows by arrival; by event time let those wait that may be first."""
        self._ingest_ns = batch.ingest_ns
        self.context.counters.rows_in += batch.rows.num_rows
        if self._by_arrival:
            yield from self._pass_now(batch)
        else:
            yield from self._let_wait(batch)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Pass the rows that are first now that nothing earlier can come; forget keys whose time is over."""
        self._passed_us = time_us
        if not self._by_arrival:
            yield from self._release(time_us)
        if not self._by_clock:
            self._forget(time_us)

    def due_us(self) -> int | None:
        """Return a watermark that lets the first waiting row go or forgets the first key; None: there is none."""
        due_us = None if self._by_arrival else self._waiting.due_us()
        if self._ttl_us == _NEVER or self._by_clock:
            return due_us
        passed_us = self._expiries.first_prefix()
        if passed_us is None:
            return due_us
        forgotten_us = passed_us + self._ttl_us + 1
        return forgotten_us if due_us is None else min(due_us, forgotten_us)

    def _pass_now(self, batch: Batch) -> Iterator[Emission]:
        counters = self.context.counters
        rows, keyed = evaluate(self.context, self._projection, batch.rows)
        if keyed is None:
            return
        if self._by_clock:
            now_us = self._clock.now_us()
            self._forget(now_us)
            times_us = np.full(rows.num_rows, now_us)
        else:
            times_us = self._times_us(rows) if self._ttl_us != _NEVER else NO_INTEGERS
        keys = self._codec.encode(keyed.columns, rows.num_rows)
        first = self._first(keys, times_us)
        counters.passed += first.size
        counters.filtered += rows.num_rows - first.size
        if first.size == rows.num_rows:
            yield MAIN, batch.with_rows(rows)
        elif first.size:
            yield MAIN, batch.with_rows(rows.take(pa.array(first)))

    def _let_wait(self, batch: Batch) -> Iterator[Emission]:
        counters = self.context.counters
        times_us = self._times_us(batch.rows)
        rows, times_us = yield from without_late(batch, times_us, self._passed_us, counters)
        if not rows.num_rows:
            return
        rows, keyed = evaluate(self.context, self._projection, rows)
        if keyed is None:
            return
        times_us = self._times_us(rows)
        keys = self._codec.encode(keyed.columns, rows.num_rows)
        slots = self._table.find(keys)
        waits = slots < 0
        if self._ttl_us == _NEVER:
            # Whatever passes, it is nothing later than the earliest row of the batch.
            groups, first_rows = self._grouper.group(keys)
            earliest_us = times_us[first_rows]
            np.minimum.at(earliest_us, groups, times_us)
            waits &= times_us == earliest_us[groups]
        else:
            passed = np.flatnonzero(~waits)
            # Rows that wait are not before the watermark, and rows that passed are.
            ages_us = times_us[passed].view(np.uint64) - self._table.array("passed_us")[slots[passed]].view(np.uint64)
            waits[passed] = ages_us > np.uint64(self._ttl_us)
        if not waits.all():
            counters.filtered += int(np.count_nonzero(~waits))
            rows, times_us = rows.filter(pa.array(waits)), times_us[waits]
        counters.folded += rows.num_rows
        self._waiting.add(rows, times_us)

    def _release(self, time_us: int) -> Iterator[Emission]:
        counters = self.context.counters
        for rows, times_us in self._waiting.release(time_us, self.context.batch_rows):
            keys = self._codec.encode(self._projection(rows).columns, rows.num_rows)
            groups, first_rows = self._grouper.group(keys)
            order = tie_order(rows, times_us, groups, len(first_rows))
            # Rows change places with others of their key and time only: keys and times stay as they are.
            rows = rows if order is None else rows.take(pa.array(order))
            first = self._first(keys, times_us)
            counters.folded -= rows.num_rows
            counters.passed += first.size
            counters.filtered += rows.num_rows - first.size
            for part in chunks(rows.take(pa.array(first)), self.context.batch_rows):
                yield MAIN, Batch(part, ingest_ns=self._ingest_ns)

    def _first(self, keys: KeyBatch, times_us: Ints) -> Ints:
        """Return the rows that are the first of their key, which is known from now on."""
        slots = self._lookup.upsert(keys).slots
        timed = self._ttl_us != _NEVER
        passed_us = self._table.array("passed_us") if timed else np.empty(0, np.int64)
        rows = np.empty(len(keys), np.int64)
        count = pass_first(
            read_only(slots), read_only(times_us), self._ttl_us, self._table.array("seen"), passed_us, rows
        )
        first = rows[:count]
        if timed and count:
            self._expiries.upsert(keys.take(first), times_us[first])
        return first

    def _forget(self, time_us: int) -> None:
        """Forget the keys whose last row passed more than the ttl before this time."""
        if self._ttl_us == _NEVER or time_us in (START_OF_TIME_US, END_OF_TIME_US):
            return
        expired = self._expiries.slots_below(max(START_OF_TIME_US, time_us - self._ttl_us))
        if not expired.size:
            return
        keys = self._codec.encode(self._expiries.key_columns(expired), expired.size)
        slots: Slots = self._table.find(keys)
        last = self._table.array("passed_us")[slots] == self._expiries.prefixes(expired)
        self._table.remove(slots[last])
        self._expiries.remove(expired)

    def _times_us(self, rows: pa.RecordBatch) -> Ints:
        if self._schema.time is None:
            raise BugError("deduplication by event time has an input without event time")
        return event_times_us(rows, self._schema.time)


class FirstDescriptor(KeyedDescriptor[FirstSpec]):
    """The first row of every key; what is kept are the keys that were seen, and rows that wait."""

    spec = FirstSpec
    verb = "deduplicate"
    operator = First

    def outputs(self, spec: FirstSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the input's schema; see `first_output`."""
        return {MAIN: first_output(spec, inputs[0], name), LATE: inputs[0]}

    def traits(self, spec: FirstSpec, context: PlanContext) -> dict[str, str]:
        """Return of which rows the first is kept, and how long."""
        return {"order": "arrival" if spec.by_arrival else "event time", "ttl": duration_words(spec.ttl_us)}

    def depends_on(self, spec: FirstSpec) -> str | None:
        """Return that rows of a key arrive in any order, if the first one stays."""
        return "passes what arrives first" if spec.by_arrival else None

    def words(self, spec: FirstSpec, node: OperatorNode) -> Words:
        """Say by which keys, in which order, for how long."""
        ttl = () if spec.ttl_us is None else (("forgotten after", format_microseconds(spec.ttl_us)),)
        by = "as they arrive" if spec.by_arrival else "by event time"
        return Words(f"first row per {columns_text(spec.keys)}", (("order", by), *ttl))


FIRST = FirstDescriptor()
