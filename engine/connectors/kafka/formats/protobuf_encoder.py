"""Rows as Protobuf messages of a generated class. Called by the sink."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError, Message

from penstock.engine.connectors.kafka.formats.contract import Headers, ValueEncoder
from penstock.engine.connectors.kafka.formats.fitting import RecordFields, messages_from
from penstock.engine.connectors.kafka.formats.protobuf_types import (
    DURATION,
    TIMESTAMP,
    arrow_fields,
    is_map,
    is_repeated,
    wrapped,
)
from penstock.model.errors import BadRecordError

Change = Callable[[Any], Any]


class ProtobufEncoder(ValueEncoder):
    """Writes each row as one message; null leaves a field out. ``prefix`` and ``headers`` name the schema."""

    def __init__(self, columns: pa.Schema, message: type[Message], prefix: bytes = b"", headers: Headers = ()) -> None:
        """Raise `SchemaError` if a column is no field of the message."""
        descriptor: Descriptor = message.DESCRIPTOR
        what = f"the Protobuf message {descriptor.full_name}"
        self._fields = RecordFields(columns, pa.schema(arrow_fields(descriptor)), what, _raw_type)
        self._changes = _changes(descriptor)
        self._message, self._prefix, self.headers = message, prefix, headers

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one message per row.

        Raises:
            BadRecordError: a value does not fit its field, or a required one is missing.
        """
        pieces: list[bytes] = []
        for record in self._fields.records(rows):
            try:
                written = self._message(**_changed(record, self._changes))
                pieces.append(self._prefix + written.SerializeToString())
            except (ValueError, TypeError, EncodeError, OverflowError) as error:
                raise BadRecordError(f"a row cannot be written as Protobuf: {error}; the row is {record}") from None
        ends = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(piece) for piece in pieces], out=ends[1:])
        return messages_from(b"".join(pieces), ends)


def _changed(record: Mapping[str, Any], changes: Mapping[str, Change]) -> dict[str, Any]:
    return {
        name: changes[name](value) if name in changes else value for name, value in record.items() if value is not None
    }


def _changes(descriptor: Descriptor) -> Mapping[str, Change]:
    changes = {field.name: _change(field) for field in descriptor.fields}
    return {name: change for name, change in changes.items() if change is not None}


def _change(field: FieldDescriptor) -> Change | None:
    if is_map(field):
        change = _value_change(field.message_type.fields_by_name["value"])
        return dict if change is None else lambda entries: {key: change(value) for key, value in entries}
    item = _value_change(field)
    if item is None or not is_repeated(field):
        return item
    return lambda values: [item(value) for value in values]


def _value_change(field: FieldDescriptor) -> Change | None:
    if field.enum_type is not None:
        numbers = {name: value.number for name, value in field.enum_type.values_by_name.items()}
        return lambda name: numbers[name] if name in numbers else _number(field, name)
    kind = field.message_type
    if kind is None:
        return None
    if kind.full_name in (TIMESTAMP, DURATION):
        return _time_message(kind.full_name == DURATION)
    if wrapped(field) is not None:
        return lambda value: {"value": value}
    changes = _changes(kind)
    return lambda record: _changed(record, changes)


def _number(field: FieldDescriptor, name: str) -> int:
    """Return the number of an enum's value without a name, which is read as its digits."""
    if name.removeprefix("-").isdecimal():
        return int(name)
    values: Sequence[str] = list(field.enum_type.values_by_name)
    raise ValueError(f"{name!r} is no value of {field.enum_type.full_name}: there are {', '.join(values)}")


def _time_message(duration: bool) -> Change:
    def parts(microseconds: int) -> dict[str, int]:
        seconds, rest = divmod(microseconds, 1_000_000)
        if duration and seconds < 0 and rest:
            seconds, rest = seconds + 1, rest - 1_000_000
        return {"seconds": seconds, "nanos": rest * 1_000}

    return parts


def _raw_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values are taken: times and durations are microseconds."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    return kind
