"""The range of valid event times: years 1 to 9999. Called where rows enter: the normaliser and the text readers."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.event_time import MICROSECONDS

LEAST_TIME_US = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z, the least event time."""

GREATEST_TIME_US = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z, the greatest event time."""


def unusable_times(times: pa.Array) -> NDArray[np.bool_] | None:
    """Return which values of a timestamp column are null or out of range; None if no value is."""
    if times.null_count == 0:
        raw = raw_times(times)
        least, greatest = time_limits(times.type.unit)
        if raw.size == 0 or (raw.min() >= least and raw.max() <= greatest):
            return None
        return np.asarray((raw < least) | (raw > greatest))
    missing = np.asarray(times.is_null())
    beyond = unusable_times(times.fill_null(0))
    return missing if beyond is None else missing | beyond


def times_after(times: pa.Array, latest_us: int) -> NDArray[np.bool_] | None:
    """Return which values of a timestamp column are after a time in microseconds; None if no value is."""
    raw = raw_times(times.fill_null(0) if times.null_count else times)
    limit = latest_us * 1_000 if times.type.unit == "ns" else latest_us // MICROSECONDS[times.type.unit]
    if raw.size == 0 or raw.max() <= limit:
        return None
    return np.asarray(raw > limit)


def ahead_error(column: str) -> str:
    """Say why a row from the future is bad."""
    return f"event time column {column!r} is further ahead of the clock than max_ahead allows"


def time_error(column: str, is_null: bool) -> str:
    """Say why a row's event time cannot be used."""
    return f"event time column {column!r} is {'null' if is_null else 'outside the years 1 to 9999'}"


def time_limits(unit: str) -> tuple[int, int]:
    """Return the least and greatest event time in a unit (``s``, ``ms``, ``us``, ``ns``)."""
    if unit == "ns":
        return -(1 << 63), (1 << 63) - 1
    return LEAST_TIME_US // MICROSECONDS[unit], GREATEST_TIME_US // MICROSECONDS[unit]


def raw_times(column: pa.Array) -> NDArray[np.int64]:
    """Return a timestamp column without nulls as the integers it is stored as, in its own unit; do not write to it."""
    raw = np.frombuffer(column.buffers()[1] or b"", np.int64)
    return raw[column.offset : column.offset + len(column)]
