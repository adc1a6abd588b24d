"""User functions on rows, on batches and coroutines: the stream's own operators call them in Spark's Python workers.

A batch function sees Spark's batches, which are cut elsewhere than the stream's: one whose answer depends on where is
outside every promise of equality. A row for which a function raises is left out, or fails with ``on_error="fail"``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

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
from penstock.replay.spark_form import SparkForm
from penstock.replay.spark_types import from_spark_batch, spark_schema, to_spark_batch

FunctionSpec = RowFunctionSpec | BatchFunctionSpec | AsyncFunctionSpec

Batches = Iterable[pa.RecordBatch]


class RowFunctionForm(SparkForm[RowFunctionSpec]):
    """The user's function is called with every row."""

    spec = RowFunctionSpec

    def compile(
        self, spec: RowFunctionSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext
    ) -> Rows:
        """Call it."""
        return _called(spec, node, inputs[0])


class BatchFunctionForm(SparkForm[BatchFunctionSpec]):
    """The user's function is called with every batch of Spark's."""

    spec = BatchFunctionSpec

    def compile(
        self, spec: BatchFunctionSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext
    ) -> Rows:
        """Call it.

        Raises:
            PlanError: the library of the function's format is missing.
        """
        return _called(spec, node, inputs[0])


class AsyncFunctionForm(SparkForm[AsyncFunctionSpec]):
    """The user's coroutine function is called with every row."""

    spec = AsyncFunctionSpec

    def compile(
        self, spec: AsyncFunctionSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext
    ) -> Rows:
        """Call it.

        Raises:
            ReplayError: rows of the stream still waited for answers.
        """
        if context.progress is not None:
            context.progress.check_answered(node)
        return _called(spec, node, inputs[0])


ROW_FUNCTION, BATCH_FUNCTION, ASYNC_FUNCTION = RowFunctionForm(), BatchFunctionForm(), AsyncFunctionForm()


def _called(spec: FunctionSpec, node: OperatorNode, frame: Frame) -> Rows:
    schema = StreamSchema(frame.schema.fields, frame.schema.time)
    make_operator(spec, [schema], node.name)
    fields = node.outputs[MAIN].fields
    return {MAIN: frame.rows.mapInArrow(_runner(spec, schema, node.name), spark_schema(fields))}


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
