"""Pickling of Kafka's readers for Spark's workers: each part by what it is made from (docs/design/replay.md 4).

Spark pickles what it sends. Decoders of JSON hold compiled parts, and those of a registry a lock and a connection,
which cannot be sent; secrets never are, only where they are. Called by the scans of topics and archives.
"""

import copyreg
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.formats.schema_registry import SchemaRegistry
from penstock.model.schema import FieldPath


def enable_pickling() -> None:
    """Let decoders be pickled, from now on in this process."""
    copyreg.pickle(JsonValues, _reduced_json)
    copyreg.pickle(SchemaRegistry, _reduced_registry)


def _json(schema: pa.Schema, columns: Sequence[str], required: frozenset[FieldPath], strict: bool) -> JsonValues:
    decoder = JsonValues(schema, required, strict=strict)
    return decoder.restrict(columns) if len(columns) < len(schema) else decoder


def _reduced_json(decoder: JsonValues) -> tuple[Any, ...]:
    return _json, (decoder.declared, decoder.schema.names, decoder.required, decoder.strict)


def _reduced_registry(registry: SchemaRegistry) -> tuple[Any, ...]:
    return SchemaRegistry, (registry.settings,)
