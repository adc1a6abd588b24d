"""The formats that the sink writes, by the names that `write_kafka` takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.kafka.formats.arrow_ipc import ArrowEncoder, ArrowValues
from penstock.engine.connectors.kafka.formats.contract import BatchEncoder, Headers, ValueDecoder, ValueEncoder
from penstock.engine.connectors.kafka.formats.decoders import RegistryOption, check_format, open_registry
from penstock.engine.connectors.kafka.formats.extras import needed
from penstock.engine.connectors.kafka.formats.json import JsonEncoder, JsonValues
from penstock.engine.connectors.kafka.formats.raw import RawEncoder, RawValues
from penstock.engine.connectors.kafka.formats.schema_registry import RegisteredSchema, SchemaRegistry
from penstock.engine.connectors.kafka.formats.wire import VALUE_HEADER, header, prefix
from penstock.model.errors import OptionError, SchemaError, UserError

Encoder = ValueEncoder | BatchEncoder


@dataclass(frozen=True, slots=True)
class SinkFormat:
    """The format of written values. ``alone``: as one column, which leaves out what becomes key, headers or timestamp.

    To ``make`` an encoder may need an answer of a registry, and raises `RetryableError` without. ``read`` makes what
    decodes again what is written of columns; it may have further columns, and other types for them.
    """

    make: Callable[[pa.Schema], Encoder]
    read: Callable[[pa.Schema], ValueDecoder]
    alone: bool = False


def sink_format(
    name: str, *, topic: str = "", schema: Any = None, message: Any = None, registry: RegistryOption = None
) -> SinkFormat:
    """Return a format by its name.

    ``schema`` is an Avro schema, made from the columns if there is none; ``message`` is a class for Protobuf. In a
    ``registry`` the schema is registered as that of the values of ``topic``.

    Raises:
        OptionError: there is no such format, it does not take an option, or needs a library that is missing.
        SchemaError: it is no schema.
    """
    check_format(name, schema, message, registry)
    if name == "avro":
        return _avro(f"{topic}-value", schema, open_registry(registry))
    if name == "protobuf":
        return _protobuf(f"{topic}-value", message, open_registry(registry))
    if schema is not None:
        raise OptionError(f"schema= is for format='avro': {name!r} writes the columns as they are")
    if name == "raw":
        return SinkFormat(_raw, lambda columns: RawValues(columns.field(0)), alone=True)
    if name == "json":
        return SinkFormat(lambda columns: JsonEncoder(), JsonValues)
    return SinkFormat(lambda columns: ArrowEncoder(), ArrowValues)


def _raw(columns: pa.Schema) -> Encoder:
    if len(columns) != 1:
        raise SchemaError(
            "format='raw' writes one column beside key, headers and timestamp, and there are "
            f"{', '.join(columns.names)}: select() that one, and give with_min_accuracy() columns=False"
        )
    return RawEncoder(columns.field(0))


def _avro(subject: str, schema: Any, registry: SchemaRegistry | None) -> SinkFormat:
    needed("fastavro", "avro", "format='avro'")
    from penstock.engine.connectors.kafka.formats.avro import AvroValues, avro_text, load_avro
    from penstock.engine.connectors.kafka.formats.avro_encoder import AvroEncoder
    from penstock.engine.connectors.kafka.formats.avro_types import avro_of

    given = None if schema is None else load_avro(schema)

    def make(columns: pa.Schema) -> Encoder:
        record = avro_of(columns) if given is None else given[0]
        encoder = AvroEncoder(columns, record)
        if registry is None:
            return encoder
        text = avro_text(record) if given is None else given[1]
        before, headers = _names(registry, registry.register(subject, text, "AVRO")[0])
        return AvroEncoder(columns, record, before, headers)

    def read(columns: pa.Schema) -> ValueDecoder:
        return AvroValues(avro_of(columns) if given is None else given[0], registry)

    return SinkFormat(make, read)


def _protobuf(subject: str, message: Any, registry: SchemaRegistry | None) -> SinkFormat:
    needed("google.protobuf", "protobuf", "format='protobuf'")
    from penstock.engine.connectors.kafka.formats.protobuf import ProtobufValues, check_message_class
    from penstock.engine.connectors.kafka.formats.protobuf_classes import MessageClass
    from penstock.engine.connectors.kafka.formats.protobuf_encoder import ProtobufEncoder
    from penstock.engine.connectors.kafka.formats.protobuf_names import index_path, register_file
    from penstock.engine.connectors.kafka.formats.wire import indexes_bytes

    travelling = MessageClass(check_message_class(message))

    def make(columns: pa.Schema) -> Encoder:
        kind = travelling.kind
        encoder = ProtobufEncoder(columns, kind)
        if registry is None:
            return encoder
        names = register_file(registry, subject, kind.DESCRIPTOR.file)
        before, headers = _names(registry, names, indexes_bytes(index_path(kind.DESCRIPTOR)))
        return ProtobufEncoder(columns, kind, before, headers)

    return SinkFormat(make, lambda columns: ProtobufValues(travelling.kind, registry))


def _names(registry: SchemaRegistry, names: RegisteredSchema, indexes: bytes = b"") -> tuple[bytes, Headers]:
    """Return what stands before each message, and its headers, to name the schema as the settings want it."""
    if registry.settings.serializer == "prefix":
        return prefix(names.schema_id) + indexes, ()
    if names.guid is None:
        raise UserError(
            f"the schema registry at {registry.settings.url} gives schemas no GUID, so no header can name them: "
            "leave out schema.id.serializer"
        )
    return b"", ((VALUE_HEADER, header(names.guid) + indexes),)
