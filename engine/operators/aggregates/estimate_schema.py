"""The fields by which an aggregate says how good its results are. Called by `plan_aggregate`, and by plans in words."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.engine.accumulators.estimates import ESTIMATED
from penstock.model.aggregates import AggregateCall
from penstock.model.job_graph import AggregateSpec
from penstock.model.result_columns import ACCURACY, BIASED, BUCKET, certified_of, high_of, low_of
from penstock.model.windows import Count, Session

QUALITY_FIELDS = (
    pa.field(ACCURACY, pa.float64(), nullable=False),
    pa.field(BIASED, pa.bool_(), nullable=False),
)
"""What every aggregate says of a result."""


BUCKET_FIELD = pa.field(BUCKET, pa.uint8(), nullable=False)
"""What sessions say of a result besides, for sums over them."""


def samples_keys(spec: AggregateSpec) -> bool:
    """Return whether rows may be dropped by their keys: of sessions that leave once and are dated by their rows."""
    windowing = spec.windowing
    if windowing is None or not isinstance(windowing.window, Session) or not spec.keys:
        return False
    return windowing.emission.mode == "final" and windowing.clock == "event"


def has_interval(spec: AggregateSpec, call: AggregateCall) -> bool:
    """Return whether an aggregate can have an interval.

    A dropped row splits a session and moves the bounds of a window of so many rows, so nothing in these has one.
    """
    torn = spec.windowing is not None and isinstance(spec.windowing.window, Session | Count)
    return call.function in ESTIMATED and not torn


def estimate_fields(spec: AggregateSpec, results: Sequence[pa.Field]) -> list[pa.Field]:
    """Return the fields that stand behind ``results``, those of the aggregates: low, high and certified, then quality.

    The ends of an interval have the type of the value, so that they can be equal to it; they and ``certified`` are
    null where there is no interval. Behind them is the bucket of the key, if it may be sampled.
    """
    fields: list[pa.Field] = []
    for (name, call), result in zip(spec.aggregates, results, strict=True):
        if has_interval(spec, call):
            ends = (pa.field(low_of(name), result.type), pa.field(high_of(name), result.type))
            fields += [*ends, pa.field(certified_of(name), pa.bool_())]
    return [*fields, *QUALITY_FIELDS, *([BUCKET_FIELD] if samples_keys(spec) else [])]
