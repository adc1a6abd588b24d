"""Our own operators over the rows of Spark's partitions, for what Spark SQL cannot express, such as user code.

Rows are dealt out by key and come in event-time order, so that the same operator with the same state and timers as in
the stream sees what it sees there; the watermark follows the rows (docs/design/data-path.md 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import MAIN, Emission, Operator
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.operators.registry import make_operator
from penstock.model import windows
from penstock.model.errors import BugError
from penstock.model.job_graph import AggregateSpec, KeyedSpec, OperatorNode, ReduceSpec
from penstock.model.schema import WEIGHT, StreamSchema
from penstock.replay.checkpoint_progress import micros_literal
from penstock.replay.frames import Frame, ReplayContext, ReplayError
from penstock.replay.operators.prepared import AT, computed, quoted, with_times
from penstock.replay.operators.running import operator_context
from penstock.replay.spark_types import from_spark_batch, spark_schema, to_spark_batch

_DUE = "$due"
"""Whether a result is one that the stream has put out."""

NEVER_US = 10**15
"""An emission interval that no batch outlasts."""

Batches = Iterable[pa.RecordBatch]

Windowed = TypeVar("Windowed", AggregateSpec, ReduceSpec)


@dataclass(frozen=True, slots=True)
class Waits:
    """The condition of a result: the watermark, less a lateness.

    With ``follows`` only its rows wait: what an operator shows follows those that it has counted.
    """

    lateness_us: int = 0
    follows: bool = False


@dataclass(frozen=True, slots=True)
class ByKey:
    """An operator that runs here: its spec, which puts out nothing that is taken back, and what its results wait for.

    ``sets_timers``: it may set timers in processing time, which a batch does not have.
    """

    spec: KeyedSpec
    waits: Waits | None = None
    sets_timers: bool = False


def waits_for_windows(windowing: windows.Windowing | None) -> Waits:
    """Return what the results of windows wait for; without windows they follow their rows."""
    if windowing is None:
        return Waits(follows=True)
    return Waits(windowing.lateness_us, windowing.emission.mode == "updates")


def final(spec: Windowed) -> Windowed:
    """Return the spec of an aggregate whose groups and windows put out nothing before their time."""
    if spec.windowing is None:
        return replace(spec, emission=windows.Emission("updates", NEVER_US))
    emission = windows.Emission("final")
    return replace(spec, windowing=replace(spec.windowing, emission=emission, lateness_us=0), emission=emission)


def run_by_key(run: ByKey, node: OperatorNode, frame: Frame, context: ReplayContext) -> DataFrame:
    """Run our operator over the rows of each key; all rows together if there are no keys.

    Raises:
        ReplayError: it cannot be told which of its results the stream has put out.
    """
    keys = [(f"$key{index}", key) for index, (_, key) in enumerate(run.spec.keys)]
    names = [name for name, _ in keys]
    rows = computed(frame, keys, node.name)
    dealt = rows.repartition(*map(quoted, names)) if names else rows.repartition(1)
    if frame.schema.time is not None:
        dealt = with_times(dealt, frame.schema).sortWithinPartitions(quoted(AT))
    progress, waits = context.progress, run.waits
    passed_us = None
    if progress is not None and waits is not None:
        passed_us = progress.passed_us(node, waits.lateness_us)
    if progress is not None and passed_us is not None and waits is not None and waits.follows:
        dealt = progress.due(node, dealt, f"{quoted(AT)} < {micros_literal(passed_us)}")
        passed_us = None
    schema = StreamSchema(frame.schema.fields, frame.schema.time)
    columns = dealt.select(*map(quoted, schema.fields.names))
    fields = node.outputs[MAIN].fields
    output_schema = spark_schema(fields).add(_DUE, BooleanType())
    rows = columns.mapInArrow(_runner(run, schema, node, passed_us), output_schema)
    if progress is not None and passed_us is not None:
        rows = progress.due(node, rows, quoted(_DUE))
    return rows.select(*(f.col(quoted(name)) for name in fields.names))


def _runner(
    by_key: ByKey, schema: StreamSchema, node: OperatorNode, passed_us: int | None
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    spec, fields, name, where = by_key.spec, node.outputs[MAIN].fields, node.name, node.where

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        arrow_batches = (from_spark_batch(batch, schema.fields) for batch in batches if batch.num_rows)
        first = next(arrow_batches, None)
        if first is None:
            return
        operator = make_operator(spec, [schema], name)
        operator.open(operator_context(name, getattr(spec, "on_error", "dead_letter"), ManualClock()))
        try:
            for rows, due in _run(operator, schema, first, arrow_batches, passed_us):
                due_column = pa.repeat(pa.scalar(due), rows.num_rows)
                yield to_spark_batch(rows.select(fields.names).append_column(_DUE, due_column))
            if by_key.sets_timers and operator.timer_ns() is not None:
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
