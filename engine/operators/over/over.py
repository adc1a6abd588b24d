"""Running and row-window aggregates of an append-only stream; `updates` has changelogs."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, OperatorContext, chunks
from penstock.engine.core.elements import Batch
from penstock.engine.operators.ordered_rows import OrderedRows, tie_order
from penstock.engine.operators.over.frames import Carried, Frames
from penstock.engine.operators.over.input import OverInput
from penstock.engine.operators.over.rows import KeptRuns, Runs
from penstock.engine.operators.over.schema import OverPlan, plan_over
from penstock.engine.operators.timed_operator import TimedOperator
from penstock.model.keyed_specs import OverSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import StateStore, TableSpec
from penstock.state.tables.grouping import KeyGrouper
from penstock.state.tables.image import positions_of


class Over(TimedOperator):
    """Puts every row out once, with aggregates over its frame, when the watermark has passed it.

    Rows that come after that are late. Waiting rows count as folded, afterwards as passed.
    """

    def __init__(self, spec: OverSpec, schema: StreamSchema, name: str) -> None:
        """Check and compile.

        Raises:
            PlanError: the spec does not fit its input.
        """
        self._plan = plan_over(spec, schema, name)
        self._input = OverInput(spec, self._plan, schema, name)
        self._rows = spec.rows
        self._fields = schema.fields

    def open(self, context: OperatorContext) -> None:
        """Open the waiting rows and what frames look back at."""
        super().open(context)
        self._waiting = OrderedRows(context.state, "rows", self._fields, context.locate_port(0))
        self._frames = Frames(context.state, self._plan, self._input)
        self._totals = self._kept = None
        if self._rows is None:
            self._totals = _Totals(context.state, self._plan)
        else:
            self._kept = KeptRuns(context.state, self._input.seen, self._plan.key_types)
        self._grouper = KeyGrouper()
        # Rows found waiting count from now on.
        self._ingest_ns = context.clock.monotonic_ns()

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Let rows wait for the watermark."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        yield from self._waiting.admit(batch, self._input.times_us(batch.rows), self._passed_us, counters)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Put out the rows that the watermark has passed."""
        self._passed_us = time_us
        counters = self.context.counters
        for ordered, _ in self._waiting.release(time_us, self.context.batch_rows):
            rows, keys, seen = self._input.evaluate(self.context, ordered)
            counters.folded -= ordered.num_rows
            if keys is None or seen is None:
                continue
            counters.passed += rows.num_rows
            for part in chunks(self._look_back(rows, keys, seen), self.context.batch_rows):
                yield MAIN, Batch(part, ingest_ns=self._ingest_ns)

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Give back scratch memory, which is no state to keep."""
        self._frames.release()
        return ()

    def due_us(self) -> int | None:
        """Return a watermark that lets the first of the waiting rows go; None: none waits."""
        return self._waiting.due_us()

    def _look_back(self, rows: pa.RecordBatch, keys: KeyBatch, seen: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows, in order of time, with their aggregates."""
        groups, first_rows = self._grouper.group(keys)
        ties = tie_order(rows, self._input.times_us(rows), groups, len(first_rows))
        if ties is not None:
            # Rows change places with others of their key and time only: keys, groups and times stay as they are.
            rows, seen = rows.take(pa.array(ties)), seen.take(pa.array(ties))
        if self._kept is not None and self._rows is not None:
            results = self._sliding(self._kept, self._rows, keys.take(first_rows), groups, seen)
        else:
            results = self._running(keys.take(first_rows), groups, seen)
        return pa.RecordBatch.from_arrays([*rows.columns, *results], schema=self._plan.output.fields)

    def _sliding(self, kept: KeptRuns, size: int, keys: KeyBatch, groups: Ints, seen: pa.RecordBatch) -> list[pa.Array]:
        slots = kept.slots(keys)
        before = np.repeat(np.arange(len(slots)), kept.counts(slots))
        runs = Runs.of(np.concatenate([before, groups]), len(slots))
        if len(before):
            seen = pa.concat_batches([kept.read(slots), seen])
        seen = seen.take(pa.array(runs.order))
        results = self._frames.sliding(seen, runs.places, size)
        left = np.flatnonzero(runs.places > runs.sizes[runs.owners] - size)
        kept.write(slots, seen.take(pa.array(left)), np.minimum(runs.sizes, size - 1), positions_of(keys.hashes))
        return _back(results, runs.order, len(before))

    def _running(self, keys: KeyBatch, groups: Ints, seen: pa.RecordBatch) -> list[pa.Array]:
        assert self._totals is not None
        runs = Runs.of(groups, len(keys))
        seen = seen.take(pa.array(runs.order))
        results = self._frames.running(seen, runs.places, runs.owners, self._totals.find(keys))
        return _back(results, runs.order, 0)


class _Totals:
    """The totals of all rows of each key so far."""

    def __init__(self, store: StateStore, plan: OverPlan) -> None:
        self._small_table = store.table(TableSpec("totals", plan.key_types, plan.small.columns()))
        self._large_table = store.table(TableSpec("multisets", plan.key_types, plan.large.columns()))
        self._small = plan.small.bind(self._small_table)
        self._large = plan.large.bind(self._large_table)
        self._keeps_large = bool(plan.large_calls)

    def find(self, keys: KeyBatch) -> Carried:
        """Return the totals of keys, which occur once."""
        small = self._small_table.upsert(keys)
        self._small.reset(small.fresh)
        slots = small.slots
        if self._keeps_large:
            large = self._large_table.upsert(keys)
            self._large.reset(large.fresh)
            slots = large.slots
        return Carried(self._small, small.slots, self._large, slots)


def _back(results: list[pa.Array], order: Ints, skipped: int) -> list[pa.Array]:
    """Undo ``order``, and leave out the first rows before it."""
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    indices = pa.array(places[skipped:])
    return [column.take(indices) for column in results]
