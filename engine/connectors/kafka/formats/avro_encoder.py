"""Rows as Avro messages, by a schema that is given or made from the columns. Called by the sink."""

from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
from fastavro import parse_schema, schemaless_writer

from penstock.engine.connectors.kafka.formats.avro_resolution import ready_default
from penstock.engine.connectors.kafka.formats.avro_schema import Field, Primitive, Record, Union
from penstock.engine.connectors.kafka.formats.avro_types import arrow_schema, raw_avro, to_avro_value
from penstock.engine.connectors.kafka.formats.contract import Headers, ValueEncoder
from penstock.engine.connectors.kafka.formats.fitting import RecordFields, messages_from
from penstock.model.errors import BadRecordError, SchemaError


class AvroEncoder(ValueEncoder):
    """Writes each row as one record; ``prefix`` and ``headers`` name the schema."""

    def __init__(self, columns: pa.Schema, record: Record, prefix: bytes = b"", headers: Headers = ()) -> None:
        """Raise `SchemaError` if a column is no field, or a field without a default is no column."""
        self._fields = RecordFields(columns, arrow_schema(record), "the Avro schema", _raw_type)
        self._constants = {item.name: _default(item) for item in record.fields if item.name not in columns.names}
        self._change = to_avro_value(record)
        self._written = parse_schema(raw_avro(record))
        self._prefix = prefix
        self.headers = headers

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record per row.

        Raises:
            BadRecordError: a value does not fit its field, such as a null in one that has none.
        """
        records = self._fields.records(rows)
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


def _default(item: Field) -> Any:
    """Return the value of a field that is no column."""
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
