"""One physical type per logical type at every edge (docs/design/data-path.md 2), and event times that mean something.

Called by the source head for what readers return, and by operators and sources for what users hand in.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.connectors.text.layouts import plain_layout
from penstock.engine.connectors.text.row_text import encode_rows
from penstock.engine.connectors.time_range import ahead_error, raw_times, time_error, times_after, unusable_times
from penstock.model.connectors import RawRecord
from penstock.model.errors import SchemaError
from penstock.model.schema import normal_field

HiddenColumns = Sequence[tuple[pa.Field, pa.Array]]
"""Columns that no user sees."""

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Normaliser:
    """Checks and converts every batch of one partition; costs microseconds when there is nothing to do."""

    def __init__(self, schema: pa.Schema, time: str | None, rows: int = 0) -> None:
        """Take the source's schema and the name of its event time column, if it has one; ``rows`` came before."""
        self._fields = pa.schema([normal_field(field) for field in schema])
        self._time = time
        self.rows = rows
        """Rows seen, by which those without a usable event time are numbered."""

    def normalise(
        self,
        rows: pa.RecordBatch,
        latest_us: int | None = None,
        chosen: NDArray[np.bool_] | None = None,
        hidden: HiddenColumns = (),
    ) -> tuple[pa.RecordBatch, list[RawRecord]]:
        """Return the rows in normal types, and those without a usable event time as JSON text.

        No event time may be after ``latest_us``, if that is given. The rows are those that were
        ``chosen`` of more (None: all), which count as seen. Columns that are ``hidden``, with a value for each row,
        follow behind their own.

        Raises:
            SchemaError: the rows do not have the columns of the source's schema, or other types.
        """
        rows = to_schema(rows, self._fields)
        first_row = self.rows
        self.rows += rows.num_rows if chosen is None else len(chosen)
        if self._time is None or not rows.num_rows:
            return _with_hidden(rows, hidden), []
        times = rows.column(self._time)
        bad = unusable_times(times)
        ahead = None if latest_us is None else times_after(times, latest_us)
        if bad is None and ahead is None:
            return _with_hidden(rows, hidden), []
        none = np.zeros(rows.num_rows, np.bool_)
        bad, ahead = none if bad is None else bad, none if ahead is None else ahead
        places = np.arange(rows.num_rows) if chosen is None else np.flatnonzero(chosen)
        good = pa.array(~(bad | ahead))
        records = _rejected(rows, bad, ahead & ~bad, self._time, first_row + places)
        return _with_hidden(rows, hidden).filter(good), records

    def usable_time(self, rows: pa.RecordBatch, latest_us: int | None) -> pa.RecordBatch | None:
        """Return the event time column of rows in its normal type, None if one of their times cannot be used."""
        if self._time is None:
            return None
        times = to_schema(rows, pa.schema([self._fields.field(self._time)]))
        column = times.column(0)
        if unusable_times(column) is not None:
            return None
        return None if latest_us is not None and times_after(column, latest_us) is not None else times


def to_schema(rows: pa.RecordBatch, fields: pa.Schema) -> pa.RecordBatch:
    """Return the rows with exactly these fields, in this order; columns that are not among them are left out.

    Layouts are converted (large and view types, dictionaries), numbers and timestamps to wider or narrower types of
    their kind if every value fits; fractions of time that the type cannot hold are floored.

    Raises:
        SchemaError: a column is missing, has another kind of type, or holds a value that does not fit.
    """
    if rows.schema.equals(fields):
        return rows
    return pa.RecordBatch.from_arrays([_column(rows, field) for field in fields], schema=fields)


def _with_hidden(rows: pa.RecordBatch, hidden: HiddenColumns) -> pa.RecordBatch:
    for field, column in hidden:
        rows = rows.append_column(field, column)
    return rows


def _rejected(
    rows: pa.RecordBatch, bad: NDArray[np.bool_], ahead: NDArray[np.bool_], time: str, numbers: NDArray[np.int64]
) -> list[RawRecord]:
    """Return the rows whose time is ``bad`` and those that are ``ahead``, none of them both."""
    places = np.flatnonzero(bad | ahead)
    rejected = rows.take(pa.array(places))
    missing = rejected.column(time).is_null().to_pylist()
    return [
        RawRecord(raw, f"row {int(numbers[place]) + 1}", ahead_error(time) if ahead[place] else time_error(time, null))
        for raw, place, null in zip(encode_rows(rejected), places, missing, strict=True)
    ]


def _column(rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = rows.schema.get_field_index(field.name)
    if index < 0:
        if field.name in rows.schema.names:
            raise SchemaError(f"column {field.name!r} appears twice; every column needs its own name")
        raise SchemaError(f"column {field.name!r} is missing; there are {', '.join(rows.schema.names) or 'none'}")
    column = rows.column(index)
    if column.type == field.type:
        return column
    try:
        return _convert(column, field)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"column {field.name!r} of type {column.type} does not fit {field.type}: {error}") from None


def _convert(column: pa.Array, field: pa.Field) -> pa.Array:
    column = plain_layout(column)
    kind = column.type
    if kind == field.type:
        return column
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(field.type):
        return _rescale_times(column, field.type)
    if not _same_family(kind, field.type):
        raise SchemaError(
            f"column {field.name!r} is {kind}, but {field.type} is declared; convert it or declare what it is"
        )
    return column.cast(field.type)


def _same_family(kind: pa.DataType, target: pa.DataType) -> bool:
    number = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    if pa.types.is_null(kind):
        return True
    if any(test(kind) for test in number):
        return any(test(target) for test in number)
    family = (
        pa.types.is_date,
        pa.types.is_time,
        pa.types.is_duration,
        pa.types.is_struct,
        pa.types.is_list,
        pa.types.is_binary,
    )
    return any(test(kind) and test(target) for test in family)


def _rescale_times(times: pa.Array, kind: pa.TimestampType) -> pa.Array:
    """Change unit and zone; the instant stays, what the new unit cannot hold is floored."""
    old, new = _PER_SECOND[times.type.unit], _PER_SECOND[kind.unit]
    if new >= old:
        return times.cast(pa.timestamp(kind.unit, times.type.tz)).view(kind)
    raw = raw_times(times.fill_null(0)) // (old // new)
    missing = np.asarray(times.is_null()) if times.null_count else None
    return pa.array(raw, mask=missing).view(kind)
