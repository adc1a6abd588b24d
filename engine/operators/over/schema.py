"""The output schema of running and row-window aggregates, checked when the pipeline is built."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.accumulators.aggregation import Aggregation
from penstock.engine.core.event_time import time_type
from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.model.errors import PlanError
from penstock.model.job_graph import AggregateSpec
from penstock.model.keyed_specs import OverSpec
from penstock.model.schema import StreamSchema, TimeColumn


@dataclass(frozen=True, slots=True)
class OverPlan:
    """A checked spec: its key types, what it aggregates and what comes out.

    ``small`` are the aggregates whose groups stay small, so that every row can have one of its own, ``large`` the
    others (multisets, sketches); ``small_calls`` and ``large_calls`` are their positions in the spec. ``timed`` says
    that some look at event times.
    """

    key_types: tuple[pa.DataType, ...]
    time: TimeColumn | None
    small: Aggregation
    large: Aggregation
    small_calls: tuple[int, ...]
    large_calls: tuple[int, ...]
    timed: bool
    output: StreamSchema


def plan_over(spec: OverSpec, schema: StreamSchema, name: str) -> OverPlan:
    """Check a spec; its output has all input columns and one for each aggregate, and the event time if it is final.

    Raises:
        PlanError: the input has no event time, a name is taken, or an aggregate cannot be built over it.
    """
    time = schema.time
    if time is None and not spec.order:
        raise PlanError(_no_time(schema, name))
    if time is not None:
        time_type(schema, name)
    for item in spec.order:
        infer_type(item.expression, schema.fields, name)
    names = [column for column, _ in spec.aggregates]
    if not names:
        raise PlanError(f"{name!r} has nothing to compute; give .agg(...) at least one aggregate, such as n=count()")
    taken = [column for column in names if column in schema.fields.names]
    if taken:
        raise PlanError(
            f"{name!r} adds a column {taken[0]!r}, which its input has already; name the aggregate otherwise"
        )
    # Results are computed anew from rows that stay, so no aggregate ever takes a row back.
    rows = StreamSchema(schema.fields, time)
    plan = plan_aggregate(AggregateSpec(spec.keys, spec.aggregates), rows, name)
    small = [index for index, one in enumerate(plan.aggregation.accumulators) if one.plain]
    large = [index for index, one in enumerate(plan.aggregation.accumulators) if not one.plain]
    fields = [*schema.fields, *plan.aggregation.fields()]
    updating = schema.changelog or bool(spec.order)
    return OverPlan(
        plan.key_types,
        time,
        _some(spec, small, schema, name),
        _some(spec, large, schema, name, sharing=False),
        tuple(small),
        tuple(large),
        plan.timed,
        StreamSchema(pa.schema(fields), None if updating else time, updating),
    )


def _some(
    spec: OverSpec, chosen: Sequence[int], schema: StreamSchema, name: str, *, sharing: bool = True
) -> Aggregation:
    pairs = [spec.aggregates[index] for index in chosen]
    types = [[infer_type(value, schema.fields, name) for value in call.inputs] for _, call in pairs]
    names, calls = [column for column, _ in pairs], [call for _, call in pairs]
    return Aggregation(name, names, calls, types, sharing=sharing)


def _no_time(schema: StreamSchema, name: str) -> str:
    if schema.changelog:
        return (
            f"{name!r} looks at rows in event-time order, but its input is an updating stream whose rows have no event "
            "time; say what orders them: over(rows, by=...)"
        )
    return (
        f"{name!r} looks at rows in event-time order, but its input has no event time; declare it at the source with "
        "time=..., or say what orders them: over(rows, by=...)"
    )
