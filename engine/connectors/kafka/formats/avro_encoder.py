"""Rows as Avro messages, by a schema that is given or made from the columns. Called by the sink."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
from fastavro import parse_schema, schemaless_writer

from penstock.engine.connectors.kafka.formats.avro_raw import raw_avro
from penstock.engine.connectors.kafka.formats.avro_resolution import ready_default
from penstock.engine.connectors.kafka.formats.avro_schema import Field, Primitive, Record, Union
from penstock.engine.connectors.kafka.formats.avro_types import arrow_schema, to_avro_value
from penstock.engine.connectors.kafka.formats.contract import Headers, ValueEncoder
from penstock.engine.connectors.kafka.formats.fitting import fitting, messages_from, with_leaves
from penstock.model.errors import BadRecordError, SchemaError


class AvroEncoder(ValueEncoder):
    """Writes each row as one record; ``prefix`` and ``headers`` name the schema."""

    def __init__(self, columns: pa.Schema, record: Record, prefix: bytes = b"", headers: Headers = ()) -> None:
        """Raise `SchemaError` if a column is no field, or a field without a default is no column."""
        self._fields = _fields(columns, record)
        self._constants = _constants(columns, record)
        self._raw = pa.schema([pa.field(item.name, with_leaves(item.type, _raw_type)) for item in self._fields])
        self._change = to_avro_value(record)
        self._written = parse_schema(raw_avro(record))
        self._prefix = prefix
        self._headers = headers

    @property
    def headers(self) -> Headers:
        """The name of the schema, if it stands there."""
        return self._headers

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record per row.

        Raises:
            BadRecordError: a value does not fit its field, such as a null in one that has none.
        """
        fitted = fitting(rows, self._fields)
        raw = [column.cast(item.type) for column, item in zip(fitted.columns, self._raw, strict=True)]
        records = pa.RecordBatch.from_arrays(raw, schema=self._raw).to_pylist()
        stream = BytesIO()
        ends = np.zeros(len(records) + 1, np.int64)
        for index, record in enumerate(records, 1):
            try:
                changed = record if self._change is None else self._change(record)
                stream.write(self._prefix)
                schemaless_writer(stream, self._written, {**self._constants, **changed})
            except (ValueError, TypeError, KeyError, OverflowError, ArithmeticError, AttributeError) as error:
                raise BadRecordError(f"a row cannot be written as Avro: {error}; the row is {record}") from None
            ends[index] = stream.tell()
        return messages_from(stream.getvalue(), ends)


def _fields(columns: pa.Schema, record: Record) -> pa.Schema:
    """Return the columns in the types of their fields."""
    known = arrow_schema(record)
    for name in columns.names:
        if name not in known.names:
            raise SchemaError(f"column {name!r} is no field of the Avro schema: there are {', '.join(known.names)}")
    return pa.schema([known.field(name) for name in columns.names])


def _constants(columns: pa.Schema, record: Record) -> Mapping[str, Any]:
    """Return the values of fields that are no columns."""
    return {item.name: _default(item) for item in record.fields if item.name not in columns.names}


def _default(item: Field) -> Any:
    if item.has_default:
        return ready_default(item.node, item.default)
    if isinstance(item.node, Union) and Primitive("null") in item.node.branches:
        return None
    raise SchemaError(f"the Avro field {item.name!r} has no default and is no column: add the column")


def _raw_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which fastavro takes a value: times are numbers."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.int64()
    return kind
