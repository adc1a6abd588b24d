"""The plan and output schema of a join, checked when the pipeline is built."""

import pyarrow as pa

from penstock.engine.core.event_time import bounds_type, time_type
from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.aggregates.aggregate_schema import WINDOW_COLUMNS
from penstock.engine.operators.aggregates.estimate_schema import BUCKET_FIELD
from penstock.model.errors import PlanError
from penstock.model.expressions import Expr
from penstock.model.join_specs import JoinSpec, LookupSpec, TwoSided
from penstock.model.result_columns import BUCKET
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Hopping, Tumbling, Windowing
from penstock.state.keys.batch_keys import KeyCodec

LATE_RIGHT = "late_right"
"""The output of the right side's late rows; the left side's leave through ``late``."""

SIDES = ("left", "right")


def join_output(spec: JoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> StreamSchema:
    """Return the schema of the join's pairs: a changelog unless both sides are append-only and it is an inner join.

    A window join that puts out ``window_end`` has it as event time (offset -1). No other join has one: a pair may be
    older than the watermark, because a row meets partners that come long after it.

    Raises:
        PlanError: keys do not fit, an output column does not exist, or a join within a window is not an inner one, has
            a changelog as input, or a window that is not tumbling or hopping in event time.
    """
    if spec.windowing is not None:
        _check_windowed(spec.how, left, right, name)
    key_types(spec, left, right, name)
    bounds = None if spec.windowing is None else window_bounds_type(spec.windowing, left, right, name)
    fields = joined_fields("join", spec, (left.fields, right.fields), name, bounds)
    ends = [output for output, side, column in spec.output if side == -1 and column == "window_end"]
    changelog = spec.how != "inner" or left.changelog or right.changelog
    return StreamSchema(fields, TimeColumn(ends[0], -1) if ends else None, changelog)


def key_types(spec: TwoSided, left: StreamSchema, right: StreamSchema, name: str) -> tuple[pa.DataType, ...]:
    """Return the type in which each pair of keys is compared.

    Raises:
        PlanError: there are no keys, not equally many, or two that cannot be equal.
    """
    if not spec.left_keys or len(spec.left_keys) != len(spec.right_keys):
        raise PlanError(
            f"join {name!r} needs as many keys on the left as on the right and at least one, got "
            f"{len(spec.left_keys)} and {len(spec.right_keys)}"
        )
    types = tuple(
        common_key_type(infer_type(one, left.fields, name), infer_type(other, right.fields, name), one, other, name)
        for one, other in zip(spec.left_keys, spec.right_keys, strict=True)
    )
    KeyCodec(types)
    return types


def keeps_unmatched(how: str, side: int) -> bool:
    """Return whether rows of this side come out without a partner too."""
    return how in (("left", "full"), ("right", "full"))[side]


def side_columns(spec: TwoSided | LookupSpec, side: int) -> list[str]:
    """Return the columns of one side that the output needs, each once."""
    return list(dict.fromkeys(column for _, of, column in spec.output if of == side))


def window_bounds_type(windowing: Windowing, left: StreamSchema, right: StreamSchema, name: str) -> pa.TimestampType:
    """Return the type of window_start and window_end.

    Raises:
        PlanError: the windowing is not one a window join can keep.
    """
    window = windowing.window
    if not isinstance(window, Tumbling | Hopping):
        raise PlanError(
            f"join {name!r} cannot join within a {window} window: its windows must be the same for all keys; "
            "use tumbling(...) or hopping(...)"
        )
    if windowing.clock != "event":
        raise PlanError(f"join {name!r} joins by event time only; leave out clock={windowing.clock!r}")
    if windowing.emission.mode != "final":
        raise PlanError(f"join {name!r} emits a window's pairs once, when it is over; leave out its emission")
    time_type(right, name)
    hop_us = window.hop_us if isinstance(window, Hopping) else window.size_us
    return bounds_type(time_type(left, name), window.size_us, hop_us, window.offset_us)


def _check_windowed(how: str, left: StreamSchema, right: StreamSchema, name: str) -> None:
    if how != "inner":
        raise PlanError(f"join {name!r} is within a window, where joins are inner ones, not {how}")
    for side, schema in zip(SIDES, (left, right), strict=True):
        if schema.changelog:
            raise PlanError(
                f"join {name!r} is within a window and needs append-only inputs, but its {side} one is updating; "
                "use a final window there"
            )


def joined_fields(
    verb: str,
    spec: TwoSided | LookupSpec,
    sides: tuple[pa.Schema, pa.Schema],
    name: str,
    bounds: pa.DataType | None = None,
) -> pa.Schema:
    """Return the fields of the output; those of a side are null where the other side's rows have no partner.

    ``bounds`` is the type of the window's bounds, which side -1 has; None: there is no such side.

    Raises:
        PlanError: a column does not exist.
    """
    fields = []
    for output, side, column in spec.output:
        if column == BUCKET:
            fields.append(BUCKET_FIELD.with_name(output))
            continue
        if side == -1:
            if bounds is None or column not in WINDOW_COLUMNS:
                raise PlanError(
                    f"{verb} {name!r} has no column {column!r} of its own; a join within a window has "
                    f"{' and '.join(WINDOW_COLUMNS)}"
                )
            fields.append(pa.field(output, bounds, nullable=False))
            continue
        side_schema = sides[side]
        if column not in side_schema.names:
            raise PlanError(
                f"{verb} {name!r} puts out column {column!r} of its {SIDES[side]} input, which has "
                f"{', '.join(side_schema.names)}"
            )
        field = side_schema.field(column).with_name(output)
        fields.append(field.with_nullable(True) if keeps_unmatched(spec.how, 1 - side) else field)
    return pa.schema(fields)


def common_key_type(one: pa.DataType, other: pa.DataType, left: Expr, right: Expr, name: str) -> pa.DataType:
    """Unequal types may meet only where equal values have equal key hashes, or rows would miss each other."""
    if one == other:
        return one
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        if pa.types.is_uint64(one) == pa.types.is_uint64(other):
            return pa.uint64() if pa.types.is_uint64(one) else pa.int64()
    elif pa.types.is_floating(one) and pa.types.is_floating(other):
        return pa.float64()
    elif pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        if "ns" not in (one.unit, other.unit):
            return pa.timestamp("us", one.tz or other.tz)
    elif pa.types.is_decimal(one) and pa.types.is_decimal(other):
        scale = max(one.scale, other.scale)
        precision = scale + max(one.precision - one.scale, other.precision - other.scale)
        if precision <= 38:
            return pa.decimal128(precision, scale)
    raise PlanError(f"join {name!r} compares {left!r} ({one}) with {right!r} ({other}); cast one of them")
