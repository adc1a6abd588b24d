"""From a pipeline to Spark: every operator of a job graph as DataFrames with the same answer (docs/design/replay.md 1).

The session of a replay calls it. Nothing runs here: what has no counterpart in a batch is refused before Spark is asked
for a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.engine.connectors.time_range import GREATEST_TIME_US, LEAST_TIME_US
from penstock.engine.core.clock import SystemClock
from penstock.engine.operators.joins.join_schema import LATE_RIGHT
from penstock.engine.plan.optimiser import narrowed, reachable
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.errors import SchemaError
from penstock.model.ids import OperatorId
from penstock.model.job_graph import LATE, MAIN, JobGraph, OperatorNode, SinkSpec, SourceSpec
from penstock.model.result_columns import DRAW
from penstock.replay.checkpoint_progress import CheckpointProgress
from penstock.replay.frames import Frame, ReplayContext, ReplayError, Rows, refused
from penstock.replay.operators.prepared import quoted, times_sql
from penstock.replay.operators.registry import form_of
from penstock.replay.sample_columns import DRAW_FIELD, KEEP, KEEP_FIELDS
from penstock.replay.sink_sample import SinkSample
from penstock.replay.spark_types import carrier_schema


def _check_nodes(needed: JobGraph) -> None:
    for node in needed.operators.values():
        _check_types(node)
        inputs = [needed[edge.operator].outputs[edge.output] for edge in node.inputs]
        for edge in node.inputs:
            if edge.output == DEAD_LETTER:
                raise refused(
                    node,
                    f"it reads the dead letters of {needed[edge.operator].name!r}, which a batch does not write; leave "
                    "this branch out of the replay",
                )
        if isinstance(node.spec, SourceSpec | SinkSpec):
            continue
        why = form_of(node.spec).refuse(node.spec, node, inputs)
        if why is not None:
            raise refused(node, why)


def only(graph: JobGraph, sink: str) -> JobGraph:
    """Return what one sink of a graph needs."""
    operators = graph.operators.items()
    return reachable(JobGraph({id: item for id, item in operators if not _is_other(item, sink)}))


def _is_other(node: OperatorNode, sink: str) -> bool:
    return isinstance(node.spec, SinkSpec) and node.name != sink


def _check_types(node: OperatorNode) -> None:
    for output, schema in node.outputs.items():
        if output != DEAD_LETTER:
            try:
                carrier_schema(schema.fields)
            except SchemaError as error:
                raise refused(node, str(error)) from None


def compile_job(
    graph: JobGraph,
    read: Callable[[OperatorNode], DataFrame],
    progress: CheckpointProgress | None = None,
    *,
    sink: str | None = None,
    sample: SinkSample | None = None,
) -> Mapping[str, Frame]:
    """Return what every sink gets, or one of them, by its name; ``read`` returns the rows of a source.

    A source is asked for the columns that a stream of the graph reads: one never sees what is wrong with a field that
    nothing reads, so a replay must not reject the message for it.
    Of a changelog a sink gets the rows that stand at the end. No row is late in a batch, so outputs of late rows are
    empty. Rows whose event time is null or out of range are left out: they are dead letters of a stream's source. With
    ``checkpoint_progress`` a sink gets what a stream has put out that has come so far. With a ``sample``, that of the
    ``sink``, rows have hidden columns behind the others, see `sample_columns`.

    Raises:
        ReplayError: an operator has no counterpart in a batch, or what it has put out cannot be told; nothing was read.
    """
    needed = narrowed(graph)
    if sink is not None:
        needed = only(needed, sink)
    _check_nodes(needed)
    frames: dict[tuple[OperatorId, str], Frame] = {}
    sinks: dict[str, Frame] = {}
    context: ReplayContext | None = None
    confidence = max(node.spec.confidence for node in needed.operators.values() if isinstance(node.spec, SinkSpec))
    for node in needed.operators.values():
        inputs = [frames[edge.operator, edge.output] for edge in node.inputs]
        if isinstance(node.spec, SinkSpec):
            sinks[node.name] = inputs[0]
            continue
        if isinstance(node.spec, SourceSpec):
            taken = read(node)
            taken = taken if sample is None else sample.apply(node, taken)
            hidden = KEEP_FIELDS if KEEP in taken.columns else pa.schema([])
            hidden = hidden.append(DRAW_FIELD) if DRAW in taken.columns else hidden
            rows: Rows = {MAIN: _source(node, taken, hidden)}
            estimates = sample is not None and sample.estimates
            context = context or ReplayContext(taken.sparkSession, progress, estimates, confidence)
        else:
            assert context is not None
            form = form_of(node.spec)
            inputs = inputs if form.carries else list(map(plain, inputs))
            rows = form.compile(node.spec, node, inputs, context)
            hidden = form.hidden(node.spec, inputs, context)
        for output, schema in node.outputs.items():
            if output in rows:
                frames[node.id, output] = Frame(rows[output], schema, hidden)
            elif output in (LATE, LATE_RIGHT):
                late = inputs[output == LATE_RIGHT]
                frames[node.id, output] = Frame(late.rows.filter("false"), schema, late.hidden)
    return sinks


def plain(frame: Frame) -> Frame:
    """Return rows without hidden columns."""
    if not frame.hidden.names:
        return frame
    return Frame(frame.rows.select(*map(quoted, frame.schema.fields.names)), frame.schema)


def _source(node: OperatorNode, rows: DataFrame, hidden: pa.Schema) -> DataFrame:
    schema = node.outputs[MAIN]
    missing = [name for name in schema.fields.names if name not in rows.columns]
    if missing:
        raise ReplayError(f"what was read for source {node.name!r} has no column {missing[0]!r}; check its schema")
    rows = rows.select(*map(quoted, [*schema.fields.names, *hidden.names]))
    if schema.time is None:
        return rows
    greatest_us = GREATEST_TIME_US
    if isinstance(node.spec, SourceSpec) and node.spec.max_ahead_us is not None:
        # When the stream read a row is not known; a time that is ahead of this clock was ahead of its clock, too.
        greatest_us = min(greatest_us, SystemClock().wall_us() + node.spec.max_ahead_us)
    return rows.filter(f"{times_sql(schema)} BETWEEN {LEAST_TIME_US}L AND {greatest_us}L")
