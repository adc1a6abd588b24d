"""The output schemas of joins by event time, checked when the pipeline is built."""

import pyarrow as pa

from penstock.engine.core.event_time import time_type
from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.joins.join_schema import SIDES, joined_fields, keeps_unmatched, key_types
from penstock.model.errors import PlanError
from penstock.model.expressions import Expr
from penstock.model.join_specs import AsOfJoinSpec, IntervalJoinSpec, Output
from penstock.model.schema import StreamSchema, TimeColumn


def asof_join_output(spec: AsOfJoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> StreamSchema:
    """Return the schema of the output, append-only; its event time is the left's, if that column is put out.

    Raises:
        PlanError: an input is a changelog or has no event time, keys do not fit, or an output column does not exist.
    """
    fields = _joined_fields("as-of join", spec, left, right, name)
    return StreamSchema(fields, _time_of_side(spec.output, 0, left))


def interval_join_output(spec: IntervalJoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> StreamSchema:
    """Return the schema of the output, append-only; its event time is that of `event_time`.

    Raises:
        PlanError: an input is a changelog or has no event time, keys do not fit, the upper bound is no timestamp, or
            an output column does not exist.
    """
    fields = _joined_fields("interval join", spec, left, right, name)
    if isinstance(spec.upper, Expr):
        kind = infer_type(spec.upper, left.fields, name)
        if not pa.types.is_timestamp(kind):
            raise PlanError(
                f"interval join {name!r} needs a duration or a timestamp as upper bound, but {spec.upper!r} is "
                f"{kind}; cast it"
            )
    return StreamSchema(fields, event_time(spec, left, right)[0])


def event_time(spec: IntervalJoinSpec, left: StreamSchema, right: StreamSchema) -> tuple[TimeColumn | None, int]:
    """Return the output's event time and how much older than the watermark a row may be that is yet to come.

    A row leaves as soon as its later half is there, and the other half may be older by as much as the bounds allow:
    right rows by -lower, left rows by upper, which is known if it is a duration. Only the time of a side that no
    output row lacks will do. None: there is none.
    """
    of_right = None if keeps_unmatched(spec.how, 0) else _time_of_side(spec.output, 1, right)
    of_left = None if keeps_unmatched(spec.how, 1) else _time_of_side(spec.output, 0, left)
    if of_left is not None and not isinstance(spec.upper, Expr) and (spec.lower_us < 0 or of_right is None):
        return of_left, max(0, spec.upper)
    return of_right, max(0, -spec.lower_us)


def _joined_fields(
    verb: str, spec: AsOfJoinSpec | IntervalJoinSpec, left: StreamSchema, right: StreamSchema, name: str
) -> pa.Schema:
    """Return the fields of the output of a join whose inputs are append-only and have event time."""
    for side, schema in zip(SIDES, (left, right), strict=True):
        if schema.changelog:
            raise PlanError(
                f"{verb} {name!r} needs append-only inputs, but its {side} one is updating; use a final window there"
            )
        if schema.time is None:
            raise PlanError(
                f"{verb} {name!r} needs event time, but its {side} input has none; declare it at the source with "
                "time=..., or after it with event_time(...)"
            )
        time_type(schema, name)
    key_types(spec, left, right, name)
    return joined_fields(verb, spec, (left.fields, right.fields), name)


def _time_of_side(output: Output, side: int, schema: StreamSchema) -> TimeColumn | None:
    """Return the event time that a side brings into the output; None: its column is not put out."""
    if schema.time is None:
        return None
    names = [result for result, of, column in output if of == side and column == schema.time.name]
    return TimeColumn(names[0], schema.time.offset_us) if names else None
