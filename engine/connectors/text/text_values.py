"""From the values that text formats can hold to columns of any type: times above all.

A *wire type* is what the format's own reader is asked for: text or epoch milliseconds for times, doubles for floats.
Called by the JSON, CSV and iterable sources.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.time_range import time_limits
from penstock.model.errors import SchemaError

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_ZONED = r"[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)$"
_EPOCH = r"^-?\d{1,19}$"


def wire_field(field: pa.Field, epoch_times: bool = False) -> pa.Field:
    """Return the field as a text format's reader is asked for it; ``epoch_times``: its timestamps are numbers.

    Raises:
        SchemaError: the type cannot be read from text.
    """
    return pa.field(field.name, _wire_type(field.type, field.name, epoch_times))


def from_wire(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert a column of a wire type to the type it stands for.

    Raises:
        pa.ArrowInvalid: a value does not convert.
    """
    if column.type == kind:
        return column
    if pa.types.is_timestamp(kind):
        return parse_times(column, kind) if pa.types.is_string(column.type) else epoch_times(column, kind)
    if pa.types.is_struct(kind):
        parts = [from_wire(part, field.type) for part, field in zip(column.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind):
        values = from_wire(column.values, kind.value_type)
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=mask)
    if pa.types.is_duration(kind):
        return column.view(kind)
    return column.cast(kind)


def wire_rows(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Return a table of wire types, whose columns are found by name, as one batch in the types they stand for.

    Raises:
        pa.ArrowInvalid: a value does not convert.
    """
    columns = []
    for field in schema:
        column = table[field.name]
        whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        columns.append(from_wire(whole, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def parse_times(texts: pa.Array, kind: pa.TimestampType) -> pa.Array:
    """Parse ISO 8601 with ``T`` or a space and an optional zone (none is UTC), or epoch milliseconds in digits.

    Digits beyond the unit of ``kind`` are cut off, which floors.

    Raises:
        pa.ArrowInvalid: a text is none of these, or outside the years 1 to 9999.
    """
    for plain in (pa.timestamp(kind.unit), pa.timestamp(kind.unit, "UTC")):
        try:
            return _in_range(texts.cast(plain).view(kind))
        except pa.ArrowInvalid:
            continue
    digits = _DIGITS[kind.unit]
    pattern, kept = (rf"(\.\d{{{digits}}})\d+", r"\1") if digits else (r"\.\d+", "")
    short = pc.replace_substring_regex(texts, pattern, kept)
    is_zoned = pc.match_substring_regex(short, _ZONED)
    is_epoch = pc.match_substring_regex(short, _EPOCH)
    zoned = pc.if_else(is_zoned, short, None).cast(pa.timestamp(kind.unit, "UTC"))
    epoch = epoch_times(pc.if_else(is_epoch, short, None).cast(pa.int64()), kind)
    plain = pc.if_else(pc.or_(is_zoned, is_epoch), None, short).cast(pa.timestamp(kind.unit))
    return _in_range(pc.coalesce(zoned.view(kind), epoch, plain.view(kind)))


def epoch_times(numbers: pa.Array, kind: pa.TimestampType) -> pa.Array:
    """Read integers as milliseconds since the epoch.

    Raises:
        pa.ArrowInvalid: a time is outside the years 1 to 9999, or does not fit the unit of ``kind``.
    """
    if kind.unit == "s":
        seconds = pc.floor(pc.divide(numbers.cast(pa.float64()), 1000.0))
        return _in_range(seconds.cast(pa.int64()).view(kind))
    return _in_range(numbers.view(pa.timestamp("ms")).cast(pa.timestamp(kind.unit)).view(kind))


def _in_range(times: pa.Array) -> pa.Array:
    """Refuse what Python and SQL cannot show as a date."""
    bounds = pc.min_max(times.view(pa.int64()))
    least, greatest = time_limits(times.type.unit)
    if bounds["min"].is_valid and not (least <= bounds["min"].as_py() and bounds["max"].as_py() <= greatest):
        raise pa.ArrowInvalid("a time is outside the years 1 to 9999")
    return times


def to_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Turn Python values into a column; times may also be text or epoch milliseconds.

    Raises:
        pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError: a value does not fit.
    """
    if pa.types.is_integer(kind):
        _refuse_fractions(values)
    if not pa.types.is_timestamp(kind):
        return pa.array(values, kind)
    texts = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
    numbers = pa.array([value if isinstance(value, int) else None for value in values], pa.int64())
    others = pa.array([None if isinstance(value, str | int) else value for value in values], kind)
    return pc.coalesce(others, parse_times(texts, kind), epoch_times(numbers, kind))


def infer_type(column: pa.ChunkedArray, name: str) -> pa.DataType:
    """Return the type for a column as a text format's own inference read it: times are recognised, null means text.

    Raises:
        SchemaError: there is no such type.
    """
    if pa.types.is_string(column.type):
        return _text_type(column.drop_null())
    return _settled(column.type, name)


def _refuse_fractions(values: Sequence[Any]) -> None:
    """Raise for a fraction among integers: pyarrow would cut it off."""
    for value in values:
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(f"{value!r} is not a whole number")


def _text_type(texts: pa.ChunkedArray) -> pa.DataType:
    """Return timestamp or date if every text is one, else string."""
    if len(texts) == 0:
        return pa.string()
    try:
        if pc.all(pc.match_substring_regex(texts, r"^\d{4}-\d\d-\d\d$")).as_py():
            texts.cast(pa.date32())
            return pa.date32()
        if pc.all(pc.match_substring_regex(texts, r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d")).as_py():
            parse_times(texts.combine_chunks(), pa.timestamp("us"))
            zoned = pc.all(pc.match_substring_regex(texts, _ZONED)).as_py()
            return pa.timestamp("us", "UTC" if zoned else None)
    except pa.ArrowInvalid:
        pass
    return pa.string()


def _settled(kind: pa.DataType, name: str) -> pa.DataType:
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(_settled(kind.value_type, name))
    if pa.types.is_struct(kind):
        if kind.num_fields == 0:
            raise SchemaError(f"column {name!r} holds only empty objects, so its type is unknown; give schema=...")
        return pa.struct([pa.field(field.name, _settled(field.type, name)) for field in kind])
    return kind


def _wire_type(kind: pa.DataType, name: str, epoch: bool) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64() if epoch else pa.string()
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_binary(kind):
        return pa.string()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(item.name, _wire_type(item.type, name, False)) for item in kind])
    if pa.types.is_list(kind):
        return pa.list_(_wire_type(kind.value_type, name, False))
    plain = pa.types.is_boolean, pa.types.is_integer, pa.types.is_string, pa.types.is_decimal128, pa.types.is_decimal256
    if any(test(kind) for test in plain):
        return kind
    raise SchemaError(f"column {name!r}: {kind} cannot be read from text; declare it as string and convert it")
