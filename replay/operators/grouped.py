"""What Spark SQL cannot say, such as the calls of a user's code: our operators run over the rows of Spark's partitions.

Rows are dealt out by key and come in event-time order, so that the same operator with the same state and timers as in
the stream sees what it sees there; the watermark follows the rows (engine.md 2, "Order").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.engine.clock import ManualClock
from penstock.engine.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.contract import MAIN, Emission, Operator
from penstock.engine.operators.event_time import event_times_us
from penstock.engine.operators.registry import make_operator
from penstock.model import windows
from penstock.model.errors import BugError
from penstock.model.expressions import Expr
from penstock.model.job_graph import AggregateSpec, OperatorNode, ReduceSpec
from penstock.model.keyed_specs import OverSpec, ProcessSpec, TopSpec
from penstock.model.schema import WEIGHT, StreamSchema
from penstock.replay.frames import Context, Frame, ReplayError, Rows
from penstock.replay.operators.prepared import AT, computed, quoted, with_times
from penstock.replay.operators.running import operator_context
from penstock.replay.spark_types import from_spark_batch, spark_schema, to_spark_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEVER_US = 10**15
"""An emission interval that no batch outlasts."""

Batches = Iterable[pa.RecordBatch]


def refuse_process(spec: ProcessSpec, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str | None:
    """Say why there is no counterpart in a batch, None if there is one."""
    if spec.order != "event":
        return f"it takes rows as they arrive (order={spec.order!r}), and a batch does not know how that was"
    for name, state in spec.states.items():
        if state.ttl_us is not None and state.ttl_clock == "processing":
            return f"its state {name!r} expires by processing time; use ttl_clock='event'"
    return None


def compile_process(spec: ProcessSpec, node: OperatorNode, inputs: Sequence[Frame], context: Context) -> Rows:
    """Call a process function."""
    return {MAIN: run_by_key(spec, node, inputs[0], spec.keys)}


def compile_reduce(spec: ReduceSpec, node: OperatorNode, inputs: Sequence[Frame], context: Context) -> Rows:
    """Fold the rows of every key and window."""
    return {MAIN: run_by_key(spec, node, inputs[0], spec.keys)}


def run_by_key(spec: Any, node: OperatorNode, frame: Frame, keys: Sequence[tuple[str, Expr]]) -> DataFrame:
    """Run our operator over the rows of each key; all rows together if there are no keys."""
    names = [f"$key{index}" for index in range(len(keys))]
    rows = computed(frame, zip(names, (key for _, key in keys), strict=True), node.name)
    dealt = rows.repartition(*map(quoted, names)) if names else rows.repartition(1)
    if frame.schema.time is not None:
        dealt = with_times(dealt, frame.schema).sortWithinPartitions(quoted(AT))
    schema = StreamSchema(frame.schema.fields, frame.schema.time)
    given = dealt.select(*map(quoted, schema.fields.names))
    fields = node.outputs[MAIN].fields
    return given.mapInArrow(_runner(_final(spec), schema, node), spark_schema(fields))


def _final(spec: Any) -> Any:
    """Return the spec of an operator that puts out nothing before its time, so that nothing is taken back."""
    if isinstance(spec, OverSpec | TopSpec):
        return replace(spec, interval_us=_NEVER_US)
    if not isinstance(spec, AggregateSpec | ReduceSpec):
        return spec
    if spec.windowing is None:
        return replace(spec, emission=windows.Emission("updates", _NEVER_US))
    final = windows.Emission("final")
    return replace(spec, windowing=replace(spec.windowing, emission=final, lateness_us=0), emission=final)


def _runner(spec: Any, schema: StreamSchema, node: OperatorNode) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    fields, name, where = node.outputs[MAIN].fields, node.name, node.where

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        given = (from_spark_batch(batch, schema.fields) for batch in batches if batch.num_rows)
        first = next(given, None)
        if first is None:
            return
        operator = make_operator(spec, [schema], name)
        operator.open(operator_context(name, getattr(spec, "on_error", "dead_letter"), ManualClock()))
        try:
            for rows in _run(operator, schema, first, given):
                yield to_spark_batch(rows.select(fields.names))
            if isinstance(spec, ProcessSpec) and operator.timer_ns() is not None:
                raise ReplayError(
                    f"operator {name!r} cannot be replayed: it sets timers in processing time, which a batch does not "
                    f"have; use timers in event time (at {where})"
                )
        finally:
            operator.close()

    return run


def _run(
    operator: Operator, schema: StreamSchema, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Give an operator rows in the order of time, and watermarks that are as far as the rows."""
    watermark_us: int | None = None
    rows: pa.RecordBatch | None = first
    while rows is not None:
        if schema.time is not None:
            time_us = int(event_times_us(rows, schema.time)[0])
            if watermark_us is None or time_us > watermark_us:
                watermark_us = time_us
                yield from _results(operator.on_watermark(time_us))
        yield from _results(operator.process(0, Batch(rows)))
        rows = next(others, None)
    yield from _results(operator.on_watermark(END_OF_TIME_US))
    yield from _results(operator.on_end())


def _results(emissions: Iterable[Emission]) -> Iterator[pa.RecordBatch]:
    for output, batch in emissions:
        if output != MAIN:
            continue
        if WEIGHT in batch.rows.schema.names and np.any(np.asarray(batch.rows.column(WEIGHT)) != 1):
            raise BugError("an operator of a replay took back what it put out; please report it")
        yield batch.rows
