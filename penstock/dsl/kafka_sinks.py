"""Builds the Kafka sink of `Stream.write_kafka` from its arguments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa

from penstock.dsl.arguments import refusal
from penstock.model.errors import OptionError
from penstock.model.option_literals import Guarantee
from penstock.model.schema import StreamSchema, check_names

if TYPE_CHECKING:
    from penstock.engine.connectors.kafka.sink import KafkaSink

GUARANTEES = get_args(Guarantee)


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Columns that become a message's key, headers and timestamp (True: event time, False: the time of writing)."""

    key: tuple[str, ...] = ()
    headers: str | None = None
    timestamp: bool | str = True


def kafka_sink(
    schema: StreamSchema,
    topic: str,
    kafka: str | Mapping[str, Any],
    format: Mapping[str, Any],
    columns: MessageColumns,
    guarantee: str,
    mode: str,
) -> "KafkaSink":
    """Make the sink; the arguments are those of `Stream.write_kafka`, and ``format`` those of `sink_format`.

    Raises:
        PlanError: there is no such column, or it has no fitting type.
        OptionError: a setting, the format or the guarantee is none.
    """
    from penstock.engine.connectors.kafka.encoded import MessageLayout
    from penstock.engine.connectors.kafka.formats.encoders import sink_format
    from penstock.engine.connectors.kafka.settings import KafkaSettings
    from penstock.engine.connectors.kafka.sink import KafkaSink

    if guarantee not in GUARANTEES:
        raise OptionError(f"guarantee must be {' or '.join(GUARANTEES)}, not {guarantee!r}")
    fields = schema.fields
    check_names(columns.key, fields.names, "key=")
    if columns.headers is not None:
        check_names([columns.headers], fields.names, "headers=")
    layout = MessageLayout(columns.key, columns.headers, _timestamp(schema, columns.timestamp), upsert=mode == "upsert")
    encoding = sink_format(**format, topic=topic)
    return KafkaSink(topic, KafkaSettings(kafka), layout, encoding, exactly_once=guarantee == "exactly_once")


def _timestamp(schema: StreamSchema, timestamp: bool | str) -> str | None:
    if isinstance(timestamp, bool):
        return schema.time.name if timestamp and schema.time is not None else None
    check_names([timestamp], schema.fields.names, "timestamp=")
    kind = schema.fields.field(timestamp).type
    if not pa.types.is_timestamp(kind):
        raise refusal(f"timestamp={timestamp!r} must be a timestamp column, but it is {kind}")
    return timestamp
