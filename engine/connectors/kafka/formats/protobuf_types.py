"""Protobuf's types and Arrow's. A message's descriptor becomes columns, and a function that reads them from a message.

Called by the Protobuf decoder and encoder.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from penstock.model.errors import SchemaError

Get = Callable[[Any], Any]
"""Takes a field's value from a message, as pyarrow takes it."""

TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_LOOSE = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Any", "FieldMask"))
_DEEPEST = 32

_SCALARS: Mapping[int, pa.DataType] = {
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.uint32(),
    FieldDescriptor.CPPTYPE_UINT64: pa.uint64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


def arrow_fields(descriptor: Descriptor, depth: int = 0) -> list[pa.Field]:
    """Return the columns of a message.

    Raises:
        SchemaError: a field has no columnar counterpart.
    """
    if depth > _DEEPEST:
        raise SchemaError(f"the Protobuf message {descriptor.full_name!r} contains itself, or is nested too deeply")
    return [pa.field(field.name, _field_type(field, depth)) for field in descriptor.fields]


def is_map(field: FieldDescriptor) -> bool:
    """Tell whether a field is a map."""
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def is_repeated(field: FieldDescriptor) -> bool:
    """Tell whether a field is a list or a map, with old and new versions of the library."""
    repeated = getattr(field, "is_repeated", None)
    return bool(repeated) if repeated is not None else field.label == FieldDescriptor.LABEL_REPEATED


def wrapped(field: FieldDescriptor) -> FieldDescriptor | None:
    """Return the value in a wrapper such as ``Int64Value``, None for other fields."""
    kind = field.message_type
    return kind.fields_by_name["value"] if kind is not None and kind.full_name in _WRAPPERS else None


def getters(descriptor: Descriptor) -> Mapping[str, Get]:
    """Return how each field is read."""
    return {field.name: _getter(field) for field in descriptor.fields}


def plain_names(descriptor: Descriptor) -> frozenset[str]:
    """Return the fields whose value is what it is: no list, no message, no enum, and never absent."""
    return frozenset(
        field.name
        for field in descriptor.fields
        if not is_repeated(field) and not field.has_presence and field.message_type is None and field.enum_type is None
    )


def _field_type(field: FieldDescriptor, depth: int) -> pa.DataType:
    if is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_value_type(entry["key"], depth), _value_type(entry["value"], depth))
    kind = _value_type(field, depth)
    return pa.list_(kind) if is_repeated(field) else kind


def _value_type(field: FieldDescriptor, depth: int) -> pa.DataType:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return pa.binary()
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.string()
    if field.message_type is None:
        return _SCALARS[field.cpp_type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if name == DURATION:
        return pa.duration("us")
    if name in _LOOSE:
        raise SchemaError(f"the Protobuf field {field.full_name!r} is a {name}, which has no columnar counterpart")
    inner = wrapped(field)
    if inner is not None:
        return _value_type(inner, depth)
    return pa.struct(arrow_fields(field.message_type, depth + 1))


def _getter(field: FieldDescriptor) -> Get:
    name, change = field.name, _change(field)
    if is_map(field):
        value = _change(field.message_type.fields_by_name["value"])
        if value is None:
            return lambda message: list(getattr(message, name).items())
        return lambda message: [(key, value(item)) for key, item in getattr(message, name).items()]
    if is_repeated(field):
        if change is None:
            return lambda message: list(getattr(message, name))
        return lambda message: [change(item) for item in getattr(message, name)]
    if not field.has_presence:
        return (lambda message: getattr(message, name)) if change is None else lambda m: change(getattr(m, name))
    if change is None:
        return lambda message: getattr(message, name) if message.HasField(name) else None
    return lambda message: change(getattr(message, name)) if message.HasField(name) else None


def _change(field: FieldDescriptor) -> Get | None:
    """Return what a value must go through, None if nothing."""
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number) or str(number)
    kind = field.message_type
    if kind is None:
        return None
    if kind.full_name in (TIMESTAMP, DURATION):
        return lambda time: time.seconds * 1_000_000 + time.nanos // 1_000
    inner = wrapped(field)
    if inner is not None:
        return lambda wrapper: wrapper.value
    parts = list(getters(kind).items())
    return lambda message: {name: get(message) for name, get in parts}
