"""What comes out of an operator, given what goes in: the one place where schemas are inferred.

The DSL calls it when the user adds an operator, the optimiser after it has pruned columns.
"""

from collections.abc import Mapping, Sequence
from typing import get_args

import pyarrow as pa

from penstock.engine.core.event_time import kept_time, time_type
from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.aggregates.aggregate_schema import aggregate_output
from penstock.engine.operators.aggregates.reduce_schema import reduce_output
from penstock.engine.operators.joins.asof_join_schema import asof_join_output
from penstock.engine.operators.joins.interval_join_schema import interval_join_output
from penstock.engine.operators.joins.join_schema import LATE_RIGHT, join_output
from penstock.engine.operators.joins.lookup_schema import lookup_output
from penstock.engine.operators.over.schema import over_output
from penstock.engine.operators.process.schema import process_output
from penstock.engine.operators.ranking.first_schema import first_output
from penstock.engine.operators.ranking.top_schema import top_output
from penstock.engine.operators.union import union_output
from penstock.model.dead_letters import DEAD_LETTER, LETTER_FIELDS
from penstock.model.errors import ExpressionError, PlanError
from penstock.model.expressions import Expr, column_name
from penstock.model.job_graph import (
    LATE,
    MAIN,
    AggregateSpec,
    AsyncFunctionSpec,
    BatchFunctionSpec,
    FilterSpec,
    OperatorSpec,
    ProjectSpec,
    ReduceSpec,
    RowFunctionSpec,
    SinkSpec,
    SourceSpec,
    SplitSpec,
    TimeSpec,
    UnionSpec,
)
from penstock.model.join_specs import AsOfJoinSpec, IntervalJoinSpec, JoinSpec, LookupSpec
from penstock.model.keyed_specs import FirstSpec, OverSpec, ProcessSpec, TopSpec
from penstock.model.modes import WriteMode
from penstock.model.schema import StreamSchema, TimeColumn, check_names


def output_schemas(
    spec: OperatorSpec, inputs: Sequence[StreamSchema], name: str, source_time: TimeColumn | None = None
) -> Mapping[str, StreamSchema]:
    """Return the schema of every output of an operator.

    Raises:
        PlanError: the spec does not fit its inputs; the message names the operator ``name``.
    """
    outputs = _outputs(spec, inputs, name, source_time)
    if isinstance(spec, SinkSpec | UnionSpec):
        return outputs
    if DEAD_LETTER in outputs:
        raise PlanError(
            f"{name!r} has an output of the name {DEAD_LETTER!r}, which is where the records go that it cannot "
            "process; name yours otherwise"
        )
    return {**outputs, DEAD_LETTER: StreamSchema(LETTER_FIELDS)}


def _outputs(
    spec: OperatorSpec, inputs: Sequence[StreamSchema], name: str, source_time: TimeColumn | None
) -> Mapping[str, StreamSchema]:
    if isinstance(spec, SourceSpec):
        return {MAIN: StreamSchema(spec.source.schema, source_time)}
    if isinstance(spec, FilterSpec):
        _boolean(spec.predicate, inputs[0], name)
        return {MAIN: inputs[0]}
    if isinstance(spec, ProjectSpec):
        return {MAIN: _project(spec, inputs[0], name)}
    if isinstance(spec, RowFunctionSpec):
        if spec.kind == "filter":
            return {MAIN: inputs[0]}
        return {MAIN: StreamSchema(spec.fields, kept_time(inputs[0], spec.fields), inputs[0].changelog)}
    if isinstance(spec, BatchFunctionSpec):
        if inputs[0].changelog:
            raise PlanError(
                f"{name!r} calls a batch function on an updating stream, which it could not retract; "
                "use a final window, or map row by row"
            )
        return {MAIN: StreamSchema(spec.fields, kept_time(inputs[0], spec.fields))}
    if isinstance(spec, UnionSpec):
        return {MAIN: union_output(inputs, name)}
    if isinstance(spec, SplitSpec):
        for _, predicate in spec.outputs:
            _boolean(predicate, inputs[0], name)
        return {MAIN: inputs[0], **{output: inputs[0] for output, _ in spec.outputs}}
    if isinstance(spec, AggregateSpec):
        return {MAIN: aggregate_output(spec, inputs[0], name), LATE: inputs[0]}
    if isinstance(spec, ReduceSpec):
        return {MAIN: reduce_output(spec, inputs[0], name), LATE: inputs[0]}
    if isinstance(spec, JoinSpec):
        return {MAIN: join_output(spec, inputs[0], inputs[1], name), LATE: inputs[0], LATE_RIGHT: inputs[1]}
    if isinstance(spec, IntervalJoinSpec):
        return {MAIN: interval_join_output(spec, inputs[0], inputs[1], name), LATE: inputs[0], LATE_RIGHT: inputs[1]}
    if isinstance(spec, AsOfJoinSpec):
        return {MAIN: asof_join_output(spec, inputs[0], inputs[1], name), LATE: inputs[0], LATE_RIGHT: inputs[1]}
    if isinstance(spec, LookupSpec):
        return {MAIN: lookup_output(spec, inputs[0], name)}
    if isinstance(spec, TopSpec):
        return {MAIN: top_output(spec, inputs[0], name)}
    if isinstance(spec, FirstSpec):
        return {MAIN: first_output(spec, inputs[0], name), LATE: inputs[0]}
    if isinstance(spec, OverSpec):
        return {MAIN: over_output(spec, inputs[0], name), LATE: inputs[0]}
    if isinstance(spec, ProcessSpec):
        return {MAIN: process_output(spec, inputs[0], name), LATE: inputs[0]}
    if isinstance(spec, AsyncFunctionSpec):
        if inputs[0].changelog:
            raise PlanError(
                f"{name!r} calls a coroutine on an updating stream, whose retractions might get another answer; "
                "call it before the aggregate, or use a final window"
            )
        return {MAIN: StreamSchema(spec.fields, kept_time(inputs[0], spec.fields))}
    if isinstance(spec, TimeSpec):
        return {MAIN: _timed(spec, inputs[0], name), LATE: inputs[0]}
    return _sink(spec, inputs[0], name)


def _boolean(predicate: Expr, schema: StreamSchema, name: str) -> None:
    kind = infer_type(predicate, schema.fields, name)
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise ExpressionError(f"{name!r} needs a condition (true or false), but {predicate!r} is {kind}")


def _project(spec: ProjectSpec, schema: StreamSchema, name: str) -> StreamSchema:
    fields = []
    time = None
    for output, expression in spec.columns:
        plain = column_name(expression)
        if plain is not None and plain in schema.fields.names:
            fields.append(schema.fields.field(plain).with_name(output))
            if schema.time is not None and plain == schema.time.name and time is None:
                time = TimeColumn(output, schema.time.offset_us)
        else:
            fields.append(pa.field(output, infer_type(expression, schema.fields, name)))
    return StreamSchema(pa.schema(fields), time, schema.changelog)


def _timed(spec: TimeSpec, schema: StreamSchema, name: str) -> StreamSchema:
    check_names([spec.column], schema.fields.names, f"event_time() of {name!r}")
    if schema.time is None:
        raise PlanError(
            f"{name!r} takes event time from another column, but its input has no event time and so no watermarks; "
            "declare it at the source with time=..."
        )
    if schema.changelog:
        raise PlanError(f"{name!r} gives event time to an updating stream, which cannot have one; use a final window")
    timed = StreamSchema(schema.fields, TimeColumn(spec.column))
    time_type(timed, name)
    return timed


def _sink(spec: SinkSpec, schema: StreamSchema, name: str) -> Mapping[str, StreamSchema]:
    if spec.mode not in get_args(WriteMode):
        raise PlanError(f"mode of sink {name!r} must be append, changelog or upsert, not {spec.mode!r}")
    if spec.mode == "append" and schema.changelog:
        raise PlanError(
            f"sink {name!r} receives an updating stream: write it with mode='changelog' (each row with a weight of "
            "+1 or -1) or mode='upsert' with key=[...]"
        )
    if spec.mode == "upsert" and not spec.key:
        raise PlanError(f"sink {name!r} has mode='upsert' and needs key=[...] to know which row replaces which")
    check_names(spec.key, schema.fields.names, f"the key of sink {name!r}")
    added = {"changelog": "weight", "upsert": "deleted"}.get(spec.mode)
    if added in schema.fields.names:
        raise PlanError(f"sink {name!r} adds a column {added!r} in mode {spec.mode!r}; rename yours")
    return {}
