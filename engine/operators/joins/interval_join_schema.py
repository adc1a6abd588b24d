"""The plan, output schema and event time of an interval join, checked when it is built."""

import pyarrow as pa

from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.joins.join_schema import key_types
from penstock.engine.operators.joins.timed_join_schema import check_inputs, joined_fields, time_of_side
from penstock.model.errors import PlanError
from penstock.model.expressions import Expr
from penstock.model.join_specs import IntervalJoinSpec
from penstock.model.schema import StreamSchema, TimeColumn

NULLABLE_SIDES = {"inner": (), "left": (1,), "right": (0,), "full": (0, 1)}
"""Which sides' columns may be missing in an output row."""

_VERB = "interval join"


def interval_join_output(spec: IntervalJoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> StreamSchema:
    """Return the schema of the output, append-only; its event time is that of `event_time`.

    Raises:
        PlanError: an input is a changelog or has no event time, keys do not fit, the upper bound is no timestamp, or
            an output column does not exist.
    """
    check_inputs(_VERB, left, right, name)
    key_types(spec, left, right, name)
    if isinstance(spec.upper, Expr):
        kind = infer_type(spec.upper, left.fields, name)
        if not pa.types.is_timestamp(kind):
            raise PlanError(
                f"{_VERB} {name!r} needs a duration or a timestamp as upper bound, but {spec.upper!r} is {kind}; "
                "cast it"
            )
    fields = joined_fields(_VERB, spec.output, left, right, NULLABLE_SIDES[spec.how], name)
    return StreamSchema(fields, event_time(spec, left, right)[0])


def event_time(spec: IntervalJoinSpec, left: StreamSchema, right: StreamSchema) -> tuple[TimeColumn | None, int]:
    """Return the output's event time and how much older than the watermark a row may be that is yet to come.

    A row leaves as soon as its later half is there, and the other half may be older by as much as the bounds allow:
    right rows by -lower, left rows by upper, which is known if it is a duration. Only the time of a side that no
    output row lacks will do. None: there is none.
    """
    nullable = NULLABLE_SIDES[spec.how]
    of_right = None if 1 in nullable else time_of_side(spec.output, 1, right)
    of_left = None if 0 in nullable or isinstance(spec.upper, Expr) else time_of_side(spec.output, 0, left)
    if of_left is not None and not isinstance(spec.upper, Expr) and (spec.lower_us < 0 or of_right is None):
        return of_left, max(0, spec.upper)
    return of_right, max(0, -spec.lower_us)
