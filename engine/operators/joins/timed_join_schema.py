"""Checks that joins by event time share: their inputs and the columns they put out."""

from collections.abc import Collection

import pyarrow as pa

from penstock.engine.core.event_time import time_type
from penstock.model.errors import PlanError
from penstock.model.join_specs import Output
from penstock.model.schema import StreamSchema, TimeColumn

SIDES = ("left", "right")


def check_inputs(verb: str, left: StreamSchema, right: StreamSchema, name: str) -> None:
    """Check that both inputs are append-only and have event time.

    Raises:
        PlanError: one is not, or has none.
    """
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


def joined_fields(
    verb: str, output: Output, left: StreamSchema, right: StreamSchema, nullable: Collection[int], name: str
) -> pa.Schema:
    """Return the fields of the output; those of the sides in ``nullable`` may be null where no partner was found.

    Raises:
        PlanError: a column does not exist.
    """
    fields = []
    for result, side, column in output:
        known = (left, right)[side].fields if side in (0, 1) else pa.schema([])
        if column not in known.names:
            raise PlanError(
                f"{verb} {name!r} puts out column {column!r} of its {SIDES[side]} input, which has "
                f"{', '.join(known.names)}"
            )
        field = known.field(column).with_name(result)
        fields.append(field.with_nullable(True) if side in nullable else field)
    return pa.schema(fields)


def time_of_side(output: Output, side: int, schema: StreamSchema) -> TimeColumn | None:
    """Return the event time that a side brings into the output; None: its column is not put out."""
    if schema.time is None:
        return None
    names = [result for result, of, column in output if of == side and column == schema.time.name]
    return TimeColumn(names[0], schema.time.offset_us) if names else None
