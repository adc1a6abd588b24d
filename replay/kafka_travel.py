"""How what reads Kafka comes to Spark's workers: each part by what it is made from (ecosystem.md 5).

Spark pickles what it sends. Decoders of JSON hold compiled parts, and those of a registry a lock and a connection,
which cannot be sent; secrets never are, only where they are. Called by the scans of topics and archives.
"""

import copyreg
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.formats.registry import Registry
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.engine.connectors.kafka.starts import Place as Start
from penstock.engine.connectors.kafka.topics import Topics


@dataclass(frozen=True, slots=True)
class SourceParts:
    """What a Kafka source is made of: ``start`` is where a job without a checkpoint begins to read."""

    settings: KafkaSettings
    topics: Topics
    maker: RowMaker
    start: Start


def parts_of(source: KafkaSource) -> SourceParts:
    """Take a source apart."""
    return SourceParts(source._settings, source._topics, source._maker, source._cluster._start)


def teach() -> None:
    """Let decoders be pickled, from now on in this process."""
    copyreg.pickle(JsonValues, _reduced_json)
    copyreg.pickle(Registry, _reduced_registry)


def _json(schema: pa.Schema, wanted: Sequence[str]) -> JsonValues:
    return JsonValues(schema).restrict(wanted) if len(wanted) < len(schema) else JsonValues(schema)


def _reduced_json(decoder: JsonValues) -> tuple[Any, ...]:
    return _json, (decoder._schema, decoder.schema.names)


def _reduced_registry(registry: Registry) -> tuple[Any, ...]:
    return Registry, (registry.settings,)
