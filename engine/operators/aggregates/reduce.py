"""Reduce: the rows of a key (and a window) folded with a user's function of two rows.

Rows wait until the watermark, less the lateness, has passed them; what comes after that is late.
"""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from penstock.engine.core.contract import LATE, MAIN, Emission, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.operators.aggregates.assigned_windows import AssignedWindows
from penstock.engine.operators.aggregates.reduce_fold import Folder
from penstock.engine.operators.aggregates.reduce_runs import CountRows, GlobalRows, ReducedSessionRows
from penstock.engine.operators.aggregates.reduce_schema import plan_reduce
from penstock.engine.operators.aggregates.reduce_state import KeyedRows, ReduceState, RunningRows, WindowedRows
from penstock.engine.operators.aggregates.updating_aggregates import OrderedAggregate
from penstock.engine.operators.descriptions import Words, function_name, group_text, window_details
from penstock.engine.operators.descriptor import Columns, KeyedDescriptor, KeyExpressions, PlanContext
from penstock.engine.operators.isolate import evaluate
from penstock.engine.operators.ordered_rows import tie_order
from penstock.engine.operators.state_descriptions import key_names, window_traits
from penstock.model.job_graph import OperatorNode, ReduceSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Count, Global, Session
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import Slots


class Reduce(OrderedAggregate):
    """Folds rows with a user's function.

    Without a window, the latest row of every key is a changelog, emitted at most once per interval and in quiet
    moments; with one, a window's row leaves once, when it is over, or with updates as a changelog of its own.
    """

    def __init__(self, spec: ReduceSpec, schema: StreamSchema, name: str) -> None:
        """Check the spec against the input and compile the keys.

        Raises:
            PlanError: see `plan_reduce`.
        """
        self._plan = plan_reduce(spec, schema, name)
        self._windowing = spec.windowing
        self._lateness_us = 0 if spec.windowing is None else spec.windowing.lateness_us
        self._updating = self._plan.output.changelog
        self._interval_us = self._plan.interval_us
        self._fields = schema.fields
        self._folder = Folder(spec.function, schema.fields)
        self._codec = KeyCodec(self._plan.key_types)
        self._projection = compile_projection(spec.keys, schema.fields, name) if spec.keys else None
        self._name = name

    def open(self, context: OperatorContext) -> None:
        """Open the reduced rows."""
        super().open(context)
        self._state = self._open_state(context)
        self._output = self._state.output

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Let rows wait."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        times_us = event_times_us(batch.rows, self._plan.time)
        yield from self._waiting.admit(batch, times_us, self._passed_us, counters)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Fold the rows that the watermark has passed, and emit the windows that are over."""
        for rows in self._release(time_us):
            piece = self._piece(rows)
            if piece is not None:
                for results in self._state.fold(piece):
                    yield MAIN, Batch(results, ingest_ns=self._ingest_ns)
                yield from self._after(Batch(piece.rows, ingest_ns=self._ingest_ns))
        if time_us == END_OF_TIME_US:
            yield from self._emit()
        yield from self._close(self._state.over(self._passed_us))

    def due_us(self) -> int | None:
        """Return the watermark that lets the first row go or closes the first window."""
        passed_us = [time_us for time_us in (self._waiting.due_us(), self._state.next_us()) if time_us is not None]
        if not passed_us:
            return END_OF_TIME_US if self._output.pending else None
        return min(min(passed_us) + self._lateness_us, END_OF_TIME_US)

    def _show(self, slots: Slots) -> pa.RecordBatch:
        return self._state.show(slots)

    def _forget(self, slots: Slots) -> None:
        self._state.forget(slots)

    def _piece(self, ordered: pa.RecordBatch) -> KeyedRows | None:
        """Evaluate the keys of rows in order of time, and order rows of one key and time by their columns."""
        rows, key_columns = ordered, []
        if self._projection is not None:
            rows, projected = evaluate(self.context, self._projection, ordered)
            self.context.counters.folded -= ordered.num_rows - rows.num_rows
            if projected is None:
                return None
            key_columns = projected.columns
        times_us = event_times_us(rows, self._plan.time)
        keys = self._codec.encode(key_columns, rows.num_rows)
        groups, first_rows = self._grouper.group(keys)
        order = tie_order(rows, times_us, groups, len(first_rows))
        # Rows change places with others of their key and time only: keys, groups and times stay as they are.
        rows = rows if order is None else rows.take(pa.array(order))
        return KeyedRows(rows, times_us, key_columns, keys, groups, first_rows)

    def _open_state(self, context: OperatorContext) -> ReduceState:
        parts = (context, self._plan, self._folder)
        if self._windowing is None:
            return RunningRows(*parts)
        window = self._windowing.window
        if isinstance(window, Count):
            return CountRows(*parts, window)
        if isinstance(window, Session):
            return ReducedSessionRows(*parts, window)
        if isinstance(window, Global):
            return GlobalRows(*parts)
        # Rows are released by the watermark less the lateness, so the windows themselves know of no lateness.
        return WindowedRows(*parts, AssignedWindows(window, 0, self._name))


class ReduceDescriptor(KeyedDescriptor[ReduceSpec]):
    """Rows of a key and window folded by a function of the user's; what is kept are folded rows, and rows that wait."""

    spec = ReduceSpec
    verb = "reduce"
    operator = Reduce

    def outputs(self, spec: ReduceSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the schema of folded rows; see `plan_reduce`."""
        return {MAIN: plan_reduce(spec, inputs[0], name).output, LATE: inputs[0]}

    def partitioned_by(self, spec: ReduceSpec, placed: Sequence[KeyExpressions]) -> Columns | None:
        """Return the keys' columns: the result has them by their names."""
        return key_names(spec.keys) or None

    def traits(self, spec: ReduceSpec, context: PlanContext) -> dict[str, str]:
        """Return by which windows rows are folded."""
        return window_traits(spec.windowing)

    def words(self, spec: ReduceSpec, node: OperatorNode) -> Words:
        """Say by which keys and windows, and name the function."""
        window = window_details(spec.windowing, spec.emission)
        return Words(group_text(spec.keys), (*window, ("reduce", function_name(spec.function))))


REDUCE = ReduceDescriptor()
