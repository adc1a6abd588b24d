"""Event time between columns and int64 microseconds, for every operator that looks at time."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.errors import PlanError
from penstock.model.schema import StreamSchema, TimeColumn

MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in one unit; ``ns`` is the exception: a thousand of them are one microsecond."""


def event_times_us(rows: pa.RecordBatch, time: TimeColumn) -> NDArray[np.int64]:
    """Return the event time of every row in microseconds since the epoch; do not write to the array.

    The zone is ignored (a column without zone is UTC), nanoseconds are floored. The column has no nulls.
    """
    times = column_times_us(rows.column(time.name))
    return times + time.offset_us if time.offset_us else times


def column_times_us(column: pa.Array) -> NDArray[np.int64]:
    """Return a timestamp column without nulls in microseconds since the epoch; do not write to the array."""
    raw = np.frombuffer(column.buffers()[1] or b"", np.int64)
    raw = raw[column.offset : column.offset + len(column)]
    unit = column.type.unit
    if unit == "us":
        return raw
    return raw // 1_000 if unit == "ns" else raw * MICROSECONDS[unit]


def time_array(times_us: NDArray[np.int64], kind: pa.TimestampType) -> pa.Array:
    """Return microseconds since the epoch as a timestamp column; what its unit cannot hold is floored."""
    if kind.unit == "ns":
        raw = times_us * 1_000
    elif kind.unit == "us":
        raw = times_us
    else:
        raw = times_us // MICROSECONDS[kind.unit]
    raw = np.ascontiguousarray(raw)
    return pa.Array.from_buffers(kind, len(raw), [None, pa.py_buffer(raw)])


def kept_time(schema: StreamSchema, fields: pa.Schema) -> TimeColumn | None:
    """Return the event time of what a user function returns: the input's, if it keeps the column with its type.

    The values are trusted: rows dated before the watermark that has passed are late for whoever is behind.
    """
    time = schema.time
    if time is None or time.name not in fields.names:
        return None
    return time if fields.field(time.name).type == schema.fields.field(time.name).type else None


def bounds_type(kind: pa.TimestampType, *durations_us: int | None) -> pa.TimestampType:
    """Return the type of window bounds: the time column's, or microseconds when its unit is too coarse.

    ``durations_us`` are what bounds are made of (size, hop, offset, gap); None stands for any microsecond.
    """
    unit = MICROSECONDS.get(kind.unit, 1)
    if all(duration is not None and duration % unit == 0 for duration in durations_us):
        return kind
    return pa.timestamp("us", kind.tz)


def time_type(stream: StreamSchema, operator: str) -> pa.TimestampType:
    """Return the type of the stream's event time column.

    Raises:
        PlanError: the stream has no event time, or the column is not a timestamp.
    """
    if stream.time is None:
        raise PlanError(
            f"{operator!r} needs event time, but its input has none: declare it at the source with time=..., and keep "
            "its column on the way (joins without bounds and updating results have none), or use clock='processing'"
        )
    kind = stream.fields.field(stream.time.name).type
    if not pa.types.is_timestamp(kind):
        raise PlanError(
            f"event time column {stream.time.name!r} of {operator!r} must be a timestamp, not {kind}; "
            "cast it before the source's rows are used"
        )
    return kind
