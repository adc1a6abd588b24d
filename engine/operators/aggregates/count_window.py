"""Windows of a number of rows per key, in event-time order, with any aggregates."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.aggregation import ROWS
from penstock.engine.core.contract import Emission, Notes, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.core.event_time import time_array
from penstock.engine.kernels.order import number_rows
from penstock.engine.operators.aggregates.aggregate_input import AggregateInput
from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.engine.operators.aggregates.updating_aggregates import OrderedAggregate
from penstock.engine.operators.ordered_rows import tie_order
from penstock.engine.operators.processing_clock import ProcessingClock
from penstock.engine.operators.updating_output import UpdatingOutput
from penstock.model.errors import BugError
from penstock.model.job_graph import AggregateSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Count
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import INTEGER, Slots, TableSpec


class CountWindowAggregate(OrderedAggregate):
    """One result per key and window; window_start and window_end are the times of its first and last row.

    Rows wait until the watermark, less the lateness, has passed them; rows that come after that are late. By the
    processing clock rows count as they arrive. The result leaves when the window is full or the input ends; with
    updates it is a changelog that follows the window's rows, and its last change leaves then.
    """

    def __init__(self, spec: AggregateSpec, schema: StreamSchema, name: str) -> None:
        """Check and compile.

        Raises:
            PlanError: the aggregate cannot be built over this input.
        """
        self._plan = plan = plan_aggregate(spec, schema, name)
        windowing = spec.windowing
        if windowing is None or not isinstance(windowing.window, Count) or plan.bounds is None:
            raise BugError(f"{name!r} is not over count windows")
        self._size = windowing.window.rows
        self._lateness_us = windowing.lateness_us
        self._by_clock = windowing.clock == "processing"
        self._updating = windowing.emission.mode == "updates"
        self._interval_us = windowing.emission.interval_us
        self._bounds = plan.bounds
        self._fields = schema.fields
        self._input = AggregateInput(spec, schema, name, plan.key_types)

    def open(self, context: OperatorContext) -> None:
        """Open the keys that have an open window, and the windows."""
        super().open(context)
        key_types = self._plan.key_types
        columns = {**self._plan.aggregation.columns(), "first_us": INTEGER, "last_us": INTEGER}
        placed_by = context.placed()
        self._keys = context.state.table(TableSpec("keys", key_types, {"seen": INTEGER}, placed_by=placed_by))
        spec = TableSpec("windows", key_types, columns, prefixed=True, placed_by=placed_by)
        self._windows = context.state.table(spec)
        self._cells = self._plan.aggregation.bind(self._windows)
        self._output = UpdatingOutput(context.batch_rows, self._show, self._alive)
        self._clock = ProcessingClock(context.clock, context.restored)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Let rows wait for the watermark, or count them at once."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        if batch.keep < 1.0 and self._plan.aggregation.estimates is not None:
            raise BugError("count windows were given a sample, which no plan lets through to them; please report it")
        if self._by_clock:
            counters.folded += batch.rows.num_rows
            yield from self._fold(batch.rows)
            return
        times_us = self._input.times_us(batch.rows)
        if times_us is None:
            raise BugError("count windows of event time were given rows without")
        yield from self._waiting.admit(batch, times_us, self._passed_us, counters)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Count the rows that the watermark has passed; at the end of time close the incomplete windows."""
        for rows in self._release(time_us):
            yield from self._fold(rows)
        if time_us == END_OF_TIME_US:
            yield from self.on_end()

    def notes(self) -> Notes:
        """Return how far time has come."""
        return {**super().notes(), **self._clock.notes()}

    def due_us(self) -> int | None:
        """Return the watermark that lets the first row go; open windows wait for the end only."""
        passed_us = self._waiting.due_us()
        if passed_us is not None:
            return min(passed_us + self._lateness_us, END_OF_TIME_US)
        return None if self._windows.first_prefix() is None else END_OF_TIME_US

    def on_end(self) -> Iterable[Emission]:
        """Emit the incomplete windows, or with updates what changed in them."""
        yield from super().on_end()
        yield from self._close(self._windows.live())
        self._keys.remove(self._keys.live())

    def _fold(self, ordered: pa.RecordBatch) -> Iterator[Emission]:
        """Give rows, in order of time, to the windows of their keys, and emit those that are now full."""
        rows, evaluated = self._input.evaluate(self.context, Batch(ordered))
        self.context.counters.folded -= ordered.num_rows - rows.num_rows
        if evaluated is None:
            return
        times_us = self._input.times_us(rows)
        keys = evaluated.keys()
        groups, first_rows = self._grouper.group(keys)
        if self._by_clock or times_us is None:
            bounds_us = np.full(rows.num_rows, self._clock.now_us())
        else:
            bounds_us = times_us
            order = tie_order(rows, times_us, groups, len(first_rows))
            # Rows change places with others of their key and time only: keys, groups and times stay as they are.
            evaluated = evaluated if order is None else evaluated.take(order)
        numbers = self._number(keys.take(first_rows), groups)
        located = self._windows.upsert(keys, numbers // self._size)
        self._cells.reset(located.fresh)
        if self._updating:
            self._output.remember(located.slots, len(self._windows.array(ROWS)))
        begins = numbers % self._size == 0
        self._windows.array("first_us")[located.slots[begins]] = bounds_us[begins]
        # Times ascend, and of several values for one slot the last stays.
        self._windows.array("last_us")[located.slots] = bounds_us
        evaluated.fold(located.slots, times_us if self._plan.timed else None, self._cells)
        yield from self._after(Batch(rows, ingest_ns=self._ingest_ns))
        yield from self._close(located.slots[numbers % self._size == self._size - 1])

    def _number(self, keys: KeyBatch, groups: Ints) -> Ints:
        """Number the rows of each key on from its last; a key between two windows is forgotten and begins at 0."""
        slots = self._keys.upsert(keys).slots
        seen = self._keys.array("seen")[slots]
        numbers = number_rows(read_only(groups), seen)
        self._keys.array("seen")[slots] = seen
        self._keys.remove(slots[seen % self._size == 0])
        return numbers

    def _forget(self, slots: Slots) -> None:
        self._windows.remove(slots)

    def _alive(self, slots: Slots) -> Mask:
        alive: Mask = self._cells.row_counts(slots) > 0
        return alive

    def _show(self, slots: Slots) -> pa.RecordBatch:
        columns = self._windows.key_columns(slots)
        columns += [time_array(self._windows.array(name)[slots], self._bounds) for name in ("first_us", "last_us")]
        return self._plan.rows(columns, self._cells.results(slots))
