"""User functions on rows, on batches and coroutines: the stream's own operators call them in Spark's Python workers.

A batch function sees Spark's batches, which are cut elsewhere than the stream's: one whose answer depends on where is
outside every promise of equality. A row for which a function raises is left out, or fails with ``on_error="fail"``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Emission, Operator
from penstock.engine.core.elements import Batch
from penstock.engine.operators.registry import make_operator
from penstock.model.job_graph import (
    MAIN,
    AsyncFunctionSpec,
    BatchFunctionSpec,
    OperatorNode,
    RowFunctionSpec,
)
from penstock.model.schema import StreamSchema
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.operators.running import operator_context
from penstock.replay.sample_columns import KEEP, KEEP_FIELDS
from penstock.replay.spark_form import SparkForm
from penstock.replay.spark_types import from_spark_batch, quoted_name, spark_schema, to_spark_batch

FunctionSpec = RowFunctionSpec | BatchFunctionSpec | AsyncFunctionSpec

Batches = Iterable[pa.RecordBatch]


class FunctionForm(SparkForm[FunctionSpec]):
    """The user's function is called with every row, or with every batch of Spark's."""

    def __init__(self, spec: type[FunctionSpec]) -> None:
        """Call the functions of this kind of operator."""
        self.spec = spec
        self.carries = True

    def hidden(self, spec: FunctionSpec, inputs: Sequence[Frame], context: ReplayContext) -> pa.Schema:
        """Return the keep rates of the input: what a function makes of a row was kept as the row was."""
        return pa.schema([field for field in inputs[0].hidden if field.name == KEEP])

    def compile(self, spec: FunctionSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Call it.

        Raises:
            ReplayError: coroutines had not answered at the checkpoint.
        """
        if context.progress is not None and isinstance(spec, AsyncFunctionSpec):
            context.progress.check_answered(node)
        return _called(spec, node, inputs[0])


ROW_FUNCTION, BATCH_FUNCTION, ASYNC_FUNCTION = map(
    FunctionForm, (RowFunctionSpec, BatchFunctionSpec, AsyncFunctionSpec)
)


def _called(spec: FunctionSpec, node: OperatorNode, frame: Frame) -> Rows:
    schema = StreamSchema(frame.schema.fields, frame.schema.time)
    make_operator(spec, [schema], node.name)
    fields = node.outputs[MAIN].fields
    weighted = KEEP in frame.hidden.names
    rows = frame.rows.select(*map(quoted_name, [*schema.fields.names, *([KEEP] if weighted else [])]))
    output = pa.schema([*fields, *(KEEP_FIELDS if weighted else ())])
    run = _runner(spec, schema, node.name)
    return {MAIN: rows.mapInArrow(_by_rate(run) if weighted else run, spark_schema(output))}


def _by_rate(run: Callable[[Batches], Iterator[pa.RecordBatch]]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a function that is given rows of one keep rate at a time, and adds it to what comes of them."""

    def run_by_rate(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rates = batch.column(KEEP)
            for rate in rates.unique():
                rows = batch.filter(pc.equal(rates, rate)).drop_columns([KEEP])
                for result in run([rows]):
                    yield result.append_column(KEEP_FIELDS.field(0), pa.repeat(rate, result.num_rows))

    return run_by_rate


def _runner(spec: FunctionSpec, schema: StreamSchema, name: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        operator = make_operator(spec, [schema], name)
        answered = threading.Event()
        clock = SystemClock()
        operator.open(operator_context(name, spec.on_error, clock, answered))
        try:
            for batch in batches:
                if batch.num_rows:
                    yield from _rows(operator.process(0, Batch(from_spark_batch(batch, schema.fields))))
                    yield from _rows(_answers(operator, clock, answered))
        finally:
            operator.close()

    return run


def _rows(emissions: Iterable[Emission]) -> Iterator[pa.RecordBatch]:
    for _, batch in emissions:
        yield to_spark_batch(batch.rows)


def _answers(operator: Operator, clock: SystemClock, answered: threading.Event) -> Iterator[Emission]:
    """Wait until coroutines have answered for every row of a batch, or their time is over."""
    while operator.unanswered():
        answered.clear()
        due_ns = operator.timer_ns()
        wait_ns = 0 if due_ns is None else due_ns - clock.monotonic_ns()
        if due_ns is None or wait_ns > 0:
            answered.wait(None if due_ns is None else wait_ns / 1_000_000_000)
        yield from operator.on_timer(clock.monotonic_ns())
