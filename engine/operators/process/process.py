"""Process functions: the user's code with state and timers per key.

Rows wait until the watermark has passed them, or go at once with ``order="arrival"``; they and the timers that are due
are handed on in pieces to `RowRunner` or `BatchRunner`.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.operators.isolate import evaluate
from penstock.engine.operators.ordered_rows import OrderedRows, tie_order
from penstock.engine.operators.process.batches import BatchRunner
from penstock.engine.operators.process.process_input import Failure, ProcessInput, TimeProgress
from penstock.engine.operators.process.rows import RowRunner, shown_keys
from penstock.engine.operators.process.runner import FunctionRunner, RunnerParts
from penstock.engine.operators.process.schema import plan_process
from penstock.engine.operators.process.state import ProcessState
from penstock.engine.operators.process.timers import Calendar, TimerTable
from penstock.engine.operators.processing_clock import ProcessingClock
from penstock.model.errors import PlanError, UserError
from penstock.model.keyed_specs import ProcessSpec
from penstock.model.process import OpenContext, Timer
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.tables.grouping import KeyGrouper

_MOST_ROUNDS = 100_000
_NO_TIMES = np.empty(0, np.int64)


class Process(Operator):
    """Calls a copy of the user's object; see `penstock.model.process.Process` for what it may rely on."""

    def __init__(self, spec: ProcessSpec, schema: StreamSchema, name: str) -> None:
        """Check the spec against the input, compile the keys and copy the function.

        Raises:
            PlanError: see `plan_process`; or the function cannot be copied.
        """
        self._plan = plan_process(spec, schema, name)
        self._spec = spec
        self._by_arrival = spec.order == "arrival"
        self._codec = KeyCodec(self._plan.key_types)
        self._projection = compile_projection(spec.keys, schema.fields, name)
        self._calendar = Calendar(self._plan.zone)
        try:
            self._function = copy.deepcopy(spec.function)
        except Exception as error:
            raise PlanError(
                f"the process function of {name!r} cannot be copied for each instance ({error}); open connections and "
                "files in its open() method"
            ) from error

    def open(self, context: OperatorContext) -> None:
        """Open waiting rows, timers and state, then the user's object."""
        super().open(context)
        store, types = context.state, self._plan.key_types
        self._waiting = None
        if not self._by_arrival:
            self._waiting = OrderedRows(store, "rows", self._plan.fields, context.locate_port(0))
        self._event_timers = TimerTable(store, "timers", types)
        self._clock_timers = TimerTable(store, "processing timers", types)
        self._state = ProcessState(self._spec.states, store, types, self._plan.zone)
        self._progress = TimeProgress(context.earliest("watermark_us", START_OF_TIME_US))
        self._clock = ProcessingClock(context.clock)
        timers = (self._event_timers, self._clock_timers)
        runner = BatchRunner if self._spec.vectorised else RowRunner
        bounds = context.batch_rows, context.clock.monotonic_ns
        parts = RunnerParts(self._plan, self._state, timers, self._progress, *bounds)
        self._runner: FunctionRunner = runner(self._function, parts)
        self._grouper = KeyGrouper()
        # Rows found waiting count from now on.
        self._ingest_ns = context.clock.monotonic_ns()
        self._due_ns: int | None = None
        self._set_timer()
        self._function.open(OpenContext(context.name, context.instance, context.parallelism))

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Let rows wait, or process them at once."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        if self._waiting is None:
            counters.folded += batch.rows.num_rows
            yield from self._take(batch.rows)
            self._sweep()
            return
        assert self._plan.time is not None
        times_us = event_times_us(batch.rows, self._plan.time)
        yield from self._waiting.admit(batch, times_us, self._progress.watermark_us, counters)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Process the rows that the watermark has passed, and the timers that it has reached."""
        self._progress.watermark_us = time_us
        if self._waiting is not None:
            for rows, _ in self._waiting.release(time_us, self.context.batch_rows):
                yield from self._take(rows)
        yield from self._fire(time_us)
        self._sweep()

    def notes(self) -> Notes:
        """Return the watermark, which decides what is late and what a function may ask for."""
        return {"watermark_us": self._progress.watermark_us}

    def due_us(self) -> int | None:
        """Return a watermark that lets a row go, fires a timer or may make state expire; None: nothing waits for one.

        State that expires by the clock is looked at with whatever comes.
        """
        waiting_us = None if self._waiting is None else self._waiting.due_us()
        due = (waiting_us, self._event_timers.first_us(), self._state.due_us())
        return min((time_us for time_us in due if time_us is not None), default=None)

    def timer_ns(self) -> int | None:
        """Return when the next timer in processing time is due."""
        return self._due_ns

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Fire the timers in processing time that are due."""
        times_us, columns = self._clock_timers.take_due(self._clock.now_us(), self.context.batch_rows)
        if len(times_us):
            piece = self._piece(self._nothing(), None, [], times_us, columns, self._progress.watermark_us)
            piece.processing = True
            yield from self._run(piece)
        self._sweep()
        self._set_timer()

    def close(self) -> None:
        """Close the user's object."""
        self._function.close()

    def peek_state(self, name: str) -> dict[Any, Any]:
        """Return what a state holds now, by key: values, lists or dicts. For tests; it reads everything.

        A key is as ``context.key`` shows it.

        Raises:
            PlanError: there is no such state.
        """
        self._progress.clock_us = self._clock.now_us()
        columns, values = self._state.peek(name, self._progress)
        return dict(zip(shown_keys(columns), values, strict=True))

    def peek_timers(self) -> list[tuple[Any, Timer]]:
        """Return all timers that wait, as (key, timer): those in event time, then those in processing time, by time."""
        timers_by_key: list[tuple[Any, Timer]] = []
        for processing, table in enumerate((self._event_timers, self._clock_timers)):
            times_us, columns = table.all()
            timers = [Timer(self._calendar.datetime_of(time_us), bool(processing)) for time_us in times_us.tolist()]
            timers_by_key += zip(shown_keys(columns), timers, strict=True)
        return timers_by_key

    def _take(self, rows: pa.RecordBatch) -> Iterator[Emission]:
        """Process rows that come in order of time (or as they arrived), and the timers due among them."""
        before = rows.num_rows
        rows, projected = evaluate(self.context, self._projection, rows)
        self.context.counters.folded -= before - rows.num_rows
        if projected is None:
            return
        key_columns = projected.columns
        time = self._plan.time
        times_us = None if time is None else event_times_us(rows, time)
        if self._by_arrival or times_us is None:
            piece = self._piece(rows, times_us, key_columns, _NO_TIMES, [], self._progress.watermark_us)
            yield from self._run(piece)
            return
        start, count = 0, rows.num_rows
        while start < count:
            bound_us = int(times_us[-1])
            due_us, due_columns = self._event_timers.take_due(bound_us, self.context.batch_rows)
            if len(due_us) >= self.context.batch_rows:
                bound_us = int(due_us[-1])
            stop = int(np.searchsorted(times_us, bound_us, side="right"))
            part = rows.slice(start, stop - start)
            columns = [column.slice(start, stop - start) for column in key_columns]
            yield from self._run(self._piece(part, times_us[start:stop], columns, due_us, due_columns, bound_us))
            start = stop

    def _fire(self, time_us: int) -> Iterator[Emission]:
        """Fire the event-time timers up to a time."""
        rounds = 0
        while True:
            due_us, columns = self._event_timers.take_due(time_us, self.context.batch_rows)
            if not len(due_us):
                return
            rounds += 1
            if rounds > _MOST_ROUNDS and time_us == END_OF_TIME_US:
                raise UserError(
                    f"timers of {self.context.name!r} set themselves again without end after the input has ended; in "
                    "on_timer(), set the next one only if not context.ended"
                )
            # At the end of time a piece fires what is there: a timer that sets itself for ever would never leave it.
            last = len(due_us) >= self.context.batch_rows or time_us == END_OF_TIME_US
            bound_us = int(due_us[-1]) if last else time_us
            yield from self._run(self._piece(self._nothing(), None, [], due_us, columns, bound_us))

    def _piece(
        self,
        rows: pa.RecordBatch,
        times_us: Ints | None,
        key_columns: list[pa.Array],
        due_us: Ints,
        due_columns: list[pa.Array],
        bound_us: int,
    ) -> ProcessInput:
        """Number the distinct keys of rows and timers, and order rows of one key and time by their columns."""
        count = rows.num_rows
        if len(due_us):
            pairs = zip(key_columns, due_columns, strict=True)
            key_columns = [pa.concat_arrays(pair) for pair in pairs] if count else due_columns
        keys = self._codec.encode(key_columns, count + len(due_us))
        groups, first_rows = self._grouper.group(keys)
        if times_us is not None and not self._by_arrival:
            order = tie_order(rows, times_us, groups[:count], len(first_rows))
            rows = rows if order is None else rows.take(pa.array(order))
        chosen = pa.array(first_rows)
        distinct = [column.take(chosen) for column in key_columns]
        return ProcessInput(
            rows,
            times_us,
            groups[:count],
            keys.take(first_rows),
            distinct,
            due_us,
            groups[count:],
            bound_us,
            self._by_arrival,
            processing=False,
        )

    def _run(self, piece: ProcessInput) -> Iterator[Emission]:
        self._progress.clock_us = self._clock.now_us()
        for rows in self._runner.run(piece):
            yield MAIN, Batch(rows, ingest_ns=self._ingest_ns)
        counters = self.context.counters
        failed = [failure for failure in piece.failures if not failure.of_timers]
        rejected = sum(failure.rows.num_rows for failure in failed)
        counters.folded -= piece.rows.num_rows
        counters.passed += piece.rows.num_rows - rejected
        counters.dead_lettered += rejected
        self._reject(failed)
        # A timer is no row: its letter is kept and counted, but not in the account of rows.
        self._reject([failure for failure in piece.failures if failure.of_timers])
        self._set_timer()

    def _reject(self, failures: list[Failure]) -> None:
        if failures:
            batches = [failure.rows for failure in failures]
            rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
            texts = [failure.text for failure in failures for _ in range(failure.rows.num_rows)]
            self.context.dead_letters.reject(self.context.name, rows, texts)

    def _nothing(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=self._plan.fields)

    def _sweep(self) -> None:
        self._progress.clock_us = self._clock.now_us()
        if self._progress.watermark_us != START_OF_TIME_US or self._by_arrival:
            self._runner.sweep()

    def _set_timer(self) -> None:
        first_us = self._clock_timers.first_us()
        self._due_ns = None if first_us is None else self._clock.due_ns(first_us)
