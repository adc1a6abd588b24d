"""What Spark SQL cannot say, such as the calls of a user's code: our operators run over the rows of Spark's partitions.

Rows are dealt out by key and come in event-time order, so that the same operator with the same state and timers as in
the stream sees what it sees there; the watermark follows the rows (docs/design/data-path.md 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import MAIN, Emission, Operator
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.operators.registry import make_operator
from penstock.model import windows
from penstock.model.errors import BugError
from penstock.model.expressions import Expr
from penstock.model.job_graph import AggregateSpec, OperatorNode, ReduceSpec
from penstock.model.keyed_specs import FirstSpec, OverSpec, ProcessSpec, TopSpec
from penstock.model.schema import WEIGHT, StreamSchema
from penstock.replay.frames import Context, Frame, ReplayError, Rows
from penstock.replay.operators.prepared import AT, computed, quoted, with_times
from penstock.replay.operators.running import operator_context
from penstock.replay.progress import micros_literal
from penstock.replay.spark_types import from_spark_batch, spark_schema, to_spark_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DUE = "$due"
"""Whether a result is one that the stream has put out."""

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
    return {MAIN: run_by_key(spec, node, inputs[0], spec.keys, context)}


def compile_reduce(spec: ReduceSpec, node: OperatorNode, inputs: Sequence[Frame], context: Context) -> Rows:
    """Fold the rows of every key and window."""
    return {MAIN: run_by_key(spec, node, inputs[0], spec.keys, context)}


def run_by_key(
    spec: Any, node: OperatorNode, frame: Frame, keys: Sequence[tuple[str, Expr]], context: Context
) -> DataFrame:
    """Run our operator over the rows of each key; all rows together if there are no keys.

    Raises:
        ReplayError: it cannot be told which of its results the stream has put out.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import BooleanType

    names = [f"$key{index}" for index in range(len(keys))]
    rows = computed(frame, zip(names, (key for _, key in keys), strict=True), node.name)
    dealt = rows.repartition(*map(quoted, names)) if names else rows.repartition(1)
    if frame.schema.time is not None:
        dealt = with_times(dealt, frame.schema).sortWithinPartitions(quoted(AT))
    progress, waits = context.progress, _waits(spec, frame.schema)
    passed_us = None
    if progress is not None and waits is not None:
        passed_us = progress.passed_us(node, waits.lateness_us)
    if progress is not None and passed_us is not None and waits is not None and waits.follows:
        dealt = progress.due(node, dealt, f"{quoted(AT)} < {micros_literal(passed_us)}")
        passed_us = None
    schema = StreamSchema(frame.schema.fields, frame.schema.time)
    given = dealt.select(*map(quoted, schema.fields.names))
    fields = node.outputs[MAIN].fields
    shown = spark_schema(fields).add(_DUE, BooleanType())
    rows = given.mapInArrow(_runner(_final(spec), schema, node, passed_us), shown)
    if progress is not None and passed_us is not None:
        rows = progress.due(node, rows, quoted(_DUE))
    return rows.select(*(f.col(quoted(name)) for name in fields.names))


@dataclass(frozen=True, slots=True)
class _Waits:
    """An operator whose results wait for the watermark, less a lateness.

    With ``follows`` only its rows wait: what it shows follows those that it has counted.
    """

    lateness_us: int = 0
    follows: bool = False


def _waits(spec: Any, schema: StreamSchema) -> _Waits | None:
    """Return what an operator's results wait for, None: nothing."""
    if isinstance(spec, ProcessSpec | FirstSpec):
        return _Waits()
    if isinstance(spec, OverSpec):
        return None if spec.order or schema.changelog else _Waits()
    if not isinstance(spec, AggregateSpec | ReduceSpec):
        return None
    windowing, ordered = spec.windowing, isinstance(spec, ReduceSpec)
    if windowing is None:
        return _Waits(follows=True) if ordered else None
    follows = windowing.emission.mode == "updates"
    if follows and not ordered and not isinstance(windowing.window, windows.Count):
        return None
    return _Waits(windowing.lateness_us, follows)


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


def _runner(
    spec: Any, schema: StreamSchema, node: OperatorNode, passed_us: int | None
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    fields, name, where = node.outputs[MAIN].fields, node.name, node.where

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        given = (from_spark_batch(batch, schema.fields) for batch in batches if batch.num_rows)
        first = next(given, None)
        if first is None:
            return
        operator = make_operator(spec, [schema], name)
        operator.open(operator_context(name, getattr(spec, "on_error", "dead_letter"), ManualClock()))
        try:
            for rows, due in _run(operator, schema, first, given, passed_us):
                said = pa.repeat(pa.scalar(due), rows.num_rows)
                yield to_spark_batch(rows.select(fields.names).append_column(_DUE, said))
            if isinstance(spec, ProcessSpec) and operator.timer_ns() is not None:
                raise ReplayError(
                    f"operator {name!r} cannot be replayed: it sets timers in processing time, which a batch does not "
                    f"have; use timers in event time (at {where})"
                )
        finally:
            operator.close()

    return run


def _run(
    operator: Operator,
    schema: StreamSchema,
    first: pa.RecordBatch,
    others: Iterator[pa.RecordBatch],
    passed_us: int | None,
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Give an operator rows in the order of time, and watermarks that are as far as the rows.

    Yields what it puts out, and whether that is due when the watermark is at ``passed_us`` (None: at the end).
    """
    last_us = END_OF_TIME_US if passed_us is None else passed_us
    watermark_us: int | None = None
    rows: pa.RecordBatch | None = first
    while rows is not None:
        if schema.time is not None:
            time_us = min(int(event_times_us(rows, schema.time)[0]), last_us)
            if watermark_us is None or time_us > watermark_us:
                watermark_us = time_us
                yield from _results(operator.on_watermark(time_us), due=True)
        yield from _results(operator.process(0, Batch(rows)), due=True)
        rows = next(others, None)
    if watermark_us is None or last_us > watermark_us:
        yield from _results(operator.on_watermark(last_us), due=True)
    if passed_us is not None:
        yield from _results(operator.on_watermark(END_OF_TIME_US), due=False)
    yield from _results(operator.on_end(), due=passed_us is None)


def _results(emissions: Iterable[Emission], *, due: bool) -> Iterator[tuple[pa.RecordBatch, bool]]:
    for output, batch in emissions:
        if output != MAIN:
            continue
        if WEIGHT in batch.rows.schema.names and np.any(np.asarray(batch.rows.column(WEIGHT)) != 1):
            raise BugError("an operator of a replay took back what it put out; please report it")
        yield batch.rows, due
