"""Protobuf messages of a generated class, each read by the library and then into columns. Called by the source."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from penstock.engine.connectors.kafka.formats.contract import Decoded, Headers, HeadersOf, ValueDecoder, no_headers
from penstock.engine.connectors.kafka.formats.one_by_one import decode_blocks
from penstock.engine.connectors.kafka.formats.protobuf_classes import MessageClass
from penstock.engine.connectors.kafka.formats.protobuf_names import index_path, written_name
from penstock.engine.connectors.kafka.formats.protobuf_types import arrow_fields, getters, plain_names
from penstock.engine.connectors.kafka.formats.schema_registry import SchemaRegistry
from penstock.engine.connectors.kafka.formats.wire import SchemaName, WireError, message_indexes, schema_name
from penstock.model.errors import OptionError, PenstockError, SchemaError

MOST_MESSAGE_BYTES = 64 << 20
_CHUNK = 4_096


class ProtobufValues(ValueDecoder):
    """Messages of one generated class. Fields that it does not know are passed over, as Protobuf has it.

    With a registry each message names its schema before its bytes; of that the decoder asks only whether it is the
    same message.
    """

    def __init__(
        self, message: type[Message], registry: SchemaRegistry | None = None, wanted: Sequence[str] | None = None
    ) -> None:
        """Take a generated class; ``wanted`` are the columns to read, or all.

        Raises:
            SchemaError: a field has no columnar counterpart.
        """
        descriptor: Descriptor = message.DESCRIPTOR
        fields = {item.name: item for item in arrow_fields(descriptor)}
        self._message, self._registry = message, registry
        self.schema = pa.schema([fields[name] for name in (fields if wanted is None else wanted)])
        plain = plain_names(descriptor)
        self._plain = [name for name in self.schema.names if name in plain]
        self._getters = {name: get for name, get in getters(descriptor).items() if name not in plain}
        self._required = _has_required(descriptor, set())
        self._parse = message.FromString
        self._refusals: dict[tuple[SchemaName, tuple[int, ...]], str | None] = {}

    @property
    def absent(self) -> pa.RecordBatch:
        """One row: what is read of fields that a message leaves out; no row if it may not leave out all of them."""
        message = self._message()
        return self._rows([message] if message.IsInitialized() else [])

    def decode(self, values: Sequence[bytes], headers: HeadersOf = no_headers) -> Decoded:
        """Decode one by one, into columns by the block."""
        return decode_blocks(values, headers, _CHUNK, self._messages, self._rows, self.schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (MessageClass(self._message), self._registry, self.schema.names)

    def restrict(self, columns: Sequence[str]) -> "ProtobufValues":
        """Make columns of only these."""
        return ProtobufValues(self._message, self._registry, columns)

    def fresh(self) -> "ProtobufValues":
        """Return a decoder that shares the registry only."""
        return self.restrict(self.schema.names)

    def _messages(
        self, values: Sequence[bytes], first: int, headers: HeadersOf, errors: list[tuple[int, str]]
    ) -> tuple[list[Message], list[int]]:
        messages: list[Message] = []
        places: list[int] = []
        for index, value in enumerate(values, first):
            try:
                if len(value) > MOST_MESSAGE_BYTES:
                    raise WireError(f"it has {len(value):,} bytes; {MOST_MESSAGE_BYTES:,} are allowed")
                body = value if self._registry is None else self._body(value, headers(index))
                message = self._parse(body)
                if self._required and not message.IsInitialized():
                    raise WireError(f"it lacks the required {', '.join(message.FindInitializationErrors())}")
            except PenstockError:
                raise
            except (DecodeError, ValueError, RecursionError, MemoryError, TypeError) as error:
                errors.append((index, f"the Protobuf message cannot be read: {error}"))
            else:
                messages.append(message)
                places.append(index)
        return messages, places

    def _body(self, value: bytes, headers: Headers) -> bytes:
        """Return the message without the name of its schema, which must be that of this class."""
        name, rest, body = schema_name(value, headers)
        indexes, start = message_indexes(body if rest is None else rest)
        if rest is None:
            body = body[start:]
        if (name, indexes) not in self._refusals:
            self._refusals[name, indexes] = self._refusal(name, indexes)
        refusal = self._refusals[name, indexes]
        if refusal is not None:
            raise WireError(refusal)
        return body

    def _refusal(self, name: SchemaName, indexes: tuple[int, ...]) -> str | None:
        """Say why messages that are named so are not of this class."""
        assert self._registry is not None
        try:
            schema = self._registry.schema(name, "serialized")
        except SchemaError as error:
            return f"schema {name} in the registry cannot be used: {error}"
        if schema.kind != "PROTOBUF":
            return f"schema {name} in the registry is {schema.kind}, not PROTOBUF"
        descriptor: Descriptor = self._message.DESCRIPTOR
        written = written_name(schema.text, indexes)
        if written is None:
            same = indexes == index_path(descriptor)
            return None if same else f"it is message {list(indexes)} of schema {name}, not {descriptor.full_name}"
        return None if written == descriptor.full_name else f"it is a {written}, not a {descriptor.full_name}"

    def _rows(self, messages: Sequence[Message]) -> pa.RecordBatch:
        if not len(self.schema):
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(messages), pa.struct([])))
        columns: dict[str, Sequence[Any]] = {}
        if len(self._plain) > 1:
            columns = dict(zip(self._plain, zip(*map(attrgetter(*self._plain), messages), strict=True), strict=False))
        elif self._plain:
            columns = {self._plain[0]: list(map(attrgetter(self._plain[0]), messages))}
        arrays = []
        for item in self.schema:
            column = columns.get(item.name)
            if column is None:
                column = list(map(self._getters[item.name], messages)) if item.name in self._getters else []
            arrays.append(pa.array(column, item.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _remake(message: MessageClass, registry: SchemaRegistry | None, columns: Sequence[str]) -> ProtobufValues:
    return ProtobufValues(message.kind, registry, columns)


def check_message_class(message: object) -> type[Message]:
    """Return a generated class.

    Raises:
        OptionError: it is none.
    """
    if message is None:
        raise OptionError("format='protobuf' needs message=..., a class that protoc generated")
    if not (isinstance(message, type) and issubclass(message, Message) and hasattr(message, "DESCRIPTOR")):
        raise OptionError(f"message= must be a class that protoc generated, not {message!r}")
    if not message.DESCRIPTOR.fields:
        raise SchemaError(f"the Protobuf message {message.DESCRIPTOR.full_name!r} has no field")
    return message


def _has_required(descriptor: Descriptor, seen: set[str]) -> bool:
    """Tell whether a field is required, here or inside."""
    seen.add(descriptor.full_name)
    for field in descriptor.fields:
        is_required = getattr(field, "is_required", None)
        if is_required if is_required is not None else field.label == field.LABEL_REQUIRED:
            return True
        inner = field.message_type
        if inner is not None and inner.full_name not in seen and _has_required(inner, seen):
            return True
    return False
