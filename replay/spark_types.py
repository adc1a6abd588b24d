"""Arrow types in Spark: which type carries which, by a fixed rule, and batches from one to the other and back.

Unsigned integers are carried by the next wider signed ones (64 bits by DECIMAL(20, 0)), 16-bit floats by FLOAT, times
of seconds and milliseconds in microseconds, every zone as UTC. Called by all of replay/.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.model.errors import SchemaError
from penstock.model.schema import normal_type

ZONE = "UTC"
"""The session's time zone, in which every text of `spark_sql` is meant."""

_CARRIERS = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}
_NAMES = {
    pa.null(): "VOID",
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", ZONE): "TIMESTAMP",
    pa.duration("us"): "INTERVAL DAY TO SECOND",
    pa.time64("ns"): "TIME(6)",
}


def carrier(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type of what Spark has instead of a type: the type of a column as Arrow batches of Spark's.

    Raises:
        SchemaError: no type of Spark's holds every value.
    """
    kind = normal_type(kind)
    if kind in _CARRIERS:
        return _CARRIERS[kind]
    if pt.is_struct(kind):
        return pa.struct([_carrying(kind.field(index)) for index in range(kind.num_fields)])
    if pt.is_list(kind) or pt.is_fixed_size_list(kind):
        return pa.list_(_carrying(kind.value_field))
    if pt.is_map(kind):
        return pa.map_(carrier(kind.key_type), _carrying(kind.item_field))
    if pt.is_fixed_size_binary(kind) and not pt.is_decimal(kind):
        return pa.binary()
    if pt.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    if (pt.is_timestamp(kind) or pt.is_duration(kind) or pt.is_time(kind)) and kind.unit != "ns":
        if pt.is_timestamp(kind):
            return pa.timestamp("us", None if kind.tz is None else ZONE)
        return pa.time64("ns") if pt.is_time(kind) else pa.duration("us")
    if kind in _NAMES and not pt.is_time(kind):
        return kind
    hint = ": Spark's times have microseconds, so cast to those first" if pt.is_temporal(kind) else ""
    raise SchemaError(f"Spark has no type for {kind}{hint}")


def carrier_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of Spark's Arrow batches for columns of this schema.

    Raises:
        SchemaError: as `carrier`, naming the column.
    """
    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, carrier(field.type)))
        except SchemaError as error:
            raise SchemaError(f"column {field.name!r}: {error}") from None
    return pa.schema(fields)


def sql_type(kind: pa.DataType) -> str:
    """Return the name in Spark SQL of the type that carries ``kind``.

    Raises:
        SchemaError: as `carrier`.
    """
    return _name_of(carrier(kind))


def spark_schema(schema: pa.Schema) -> StructType:
    """Return Spark's schema that carries the columns of ``schema``; every column may be null.

    Raises:
        SchemaError: as `carrier_schema`.
    """
    return from_arrow_schema(carrier_schema(schema), prefer_timestamp_ntz=True)


def to_spark_batch(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as Spark takes them from Python.

    Raises:
        SchemaError: as `carrier_schema`.
        pyarrow.ArrowInvalid: a time is out of the range of microseconds.
    """
    return _cast(rows, carrier_schema(rows.schema))


def from_spark_batch(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows that Spark gave, whose columns are those of ``schema`` in that order, with the types of ``schema``.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit in its type.
    """
    return _cast(rows, schema)


def quoted_name(name: str) -> str:
    """Return the name of a column or field as Spark SQL reads it.

    Raises:
        SchemaError: Spark would replace a part of it.
    """
    if "${" in name:
        raise SchemaError(f"column {name!r}: Spark reads ${{...}} in a name as a variable, so rename it")
    return "`" + name.replace("`", "``") + "`"


def _name_of(kind: pa.DataType) -> str:
    """Return the name of the type that a carrier is in Spark."""
    if pt.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pt.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return f"STRUCT<{', '.join(f'{quoted_name(field.name)}: {_name_of(field.type)}' for field in fields)}>"
    if pt.is_list(kind):
        return f"ARRAY<{_name_of(kind.value_type)}>"
    if pt.is_map(kind):
        return f"MAP<{_name_of(kind.key_type)}, {_name_of(kind.item_type)}>"
    return _NAMES[kind]


def _carrying(field: pa.Field) -> pa.Field:
    # Spark's own batches say of every part that it may be null, whatever is true of the stream's.
    return pa.field(field.name, carrier(field.type))


def _cast(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_to_type(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _to_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column; parts that may not be null are told so afterwards, as below a null they are."""
    if column.type == kind:
        return column
    loose = _loose(kind)
    cast = column if column.type == loose else column.cast(loose)
    return cast if loose == kind else _as_kind(cast, kind)


def _loose(kind: pa.DataType) -> pa.DataType:
    """Return a type whose parts may all be null."""
    if pt.is_struct(kind):
        return pa.struct([_part(kind.field(index), _loose) for index in range(kind.num_fields)])
    if pt.is_list(kind):
        return pa.list_(_part(kind.value_field, _loose))
    return pa.map_(kind.key_type, _part(kind.item_field, _loose)) if pt.is_map(kind) else kind


def _part(field: pa.Field, change: Callable[[pa.DataType], pa.DataType]) -> pa.Field:
    return pa.field(field.name, change(field.type))


def _as_kind(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of type ``_loose(kind)`` as one of ``kind``."""
    if column.type == kind or not pt.is_nested(kind):
        return column
    if column.offset:
        column = column.take(pa.array(range(len(column))))
    if pt.is_struct(kind):
        children = [_as_kind(column.field(index), kind.field(index).type) for index in range(kind.num_fields)]
    elif pt.is_list(kind):
        children = [_as_kind(column.values, kind.value_type)]
    else:
        parts = [column.keys, _as_kind(column.items, kind.item_type)]
        children = [pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])]
    buffers = column.buffers()[: 1 if pt.is_struct(kind) else 2]
    return pa.Array.from_buffers(kind, len(column), buffers, children=children)
