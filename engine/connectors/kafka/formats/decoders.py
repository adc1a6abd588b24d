"""The formats by name, as users say them. Called by the front door."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pyarrow as pa

from penstock.engine.connectors.kafka.formats.arrow_ipc import ArrowValues
from penstock.engine.connectors.kafka.formats.contract import ValueDecoder
from penstock.engine.connectors.kafka.formats.extras import needed
from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.formats.raw import RawValues
from penstock.engine.connectors.kafka.formats.registry_settings import RegistrySettings
from penstock.engine.connectors.kafka.formats.schema_registry import SchemaRegistry
from penstock.model.errors import OptionError, SchemaError
from penstock.model.option_literals import MessageFormat
from penstock.model.schema import required_paths, to_arrow_schema

FORMATS: Sequence[str] = get_args(MessageFormat)
"""What there is to read and to write."""

RegistryOption = Mapping[str, Any] | str | None
"""The URL of a schema registry, or the settings of Confluent's client."""


def decoder(
    name: str,
    schema: Any,
    *,
    topics: str | Sequence[str] = (),
    message: Any = None,
    registry: RegistryOption = None,
    strict: bool = False,
) -> ValueDecoder:
    """Make the decoder of a format.

    ``schema`` is that of the rows, or an Avro schema; without one, that of the one topic's subject in the registry is
    read. ``message`` is a class for Protobuf. ``strict`` refuses JSON with fields that the schema does not have.

    Raises:
        OptionError: there is no such format, it does not take an option, or needs a library that is missing.
        SchemaError: the format needs a schema, or another one.
        RetryableError: the schema is to come from a registry that does not answer.
    """
    check_format(name, schema, message, registry)
    if strict and name != "json":
        raise OptionError(f"strict= is for format='json', not for {name!r}")
    if name == "avro":
        return _avro(schema, topics, open_registry(registry))
    if name == "protobuf":
        needed("google.protobuf", "protobuf", "format='protobuf'")
        from penstock.engine.connectors.kafka.formats.protobuf import ProtobufValues, check_message_class

        return ProtobufValues(check_message_class(message), open_registry(registry))
    fields = None if schema is None else to_arrow_schema(schema)
    if name == "raw":
        fields = pa.schema([pa.field("value", pa.binary())]) if fields is None else fields
        if len(fields) != 1:
            raise SchemaError(f"raw messages are one column, but the schema has {len(fields)}; use another format")
        return RawValues(fields.field(0))
    if fields is None:
        what = "JSON messages do not tell their" if name == "json" else "Arrow messages each tell their own"
        raise SchemaError(f"{what} fields: give schema=..., a dataclass or a mapping")
    if name == "json":
        return JsonValues(fields, required_paths(schema), strict=strict)
    return ArrowValues(fields)


def check_format(name: str, schema: Any, message: Any, registry: RegistryOption) -> None:
    """Check that there is a format, and that it takes the options that are given.

    Raises:
        OptionError: it does not.
    """
    if name not in FORMATS:
        raise OptionError(f"format must be one of {', '.join(FORMATS)}, not {name!r}")
    if message is not None and name != "protobuf":
        raise OptionError(f"message= is for format='protobuf', not for {name!r}")
    if registry is not None and name not in ("avro", "protobuf"):
        raise OptionError(f"registry= is for format='avro' and 'protobuf', not for {name!r}")
    if schema is not None and name == "protobuf":
        raise OptionError("format='protobuf' takes its fields from message=..., so leave schema= out")


def open_registry(registry: RegistryOption) -> SchemaRegistry | None:
    """Return the registry, if one is given; it connects when it is asked.

    Raises:
        OptionError: a setting is wrong, or libraries are missing.
    """
    return None if registry is None else SchemaRegistry(RegistrySettings(registry))


def _avro(schema: Any, topics: str | Sequence[str], registry: SchemaRegistry | None) -> ValueDecoder:
    needed("fastavro", "avro", "format='avro'")
    from penstock.engine.connectors.kafka.formats.avro import AvroValues, load_avro
    from penstock.engine.connectors.kafka.formats.avro_schema import parse_avro

    if schema is not None:
        return AvroValues(load_avro(schema)[0], registry)
    if registry is None:
        raise SchemaError("Avro messages do not tell their fields: give schema=..., or registry=... to take it from")
    names = [topics] if isinstance(topics, str) else list(topics)
    if len(names) != 1 or names[0].startswith("^"):
        raise SchemaError("which subject of the registry has the schema of several topics is not sure: give schema=...")
    latest = registry.latest(f"{names[0]}-value")
    return AvroValues(parse_avro(latest.text, latest.references), registry)
