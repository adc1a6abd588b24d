"""Apache Kafka at the front door: `read_kafka`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.dsl.job import Job
from penstock.dsl.readers import read
from penstock.dsl.stream import Stream
from penstock.engine.connectors.kafka.formats.contract import ValueDecoder
from penstock.engine.connectors.kafka.formats.decoders import RegistryOption, decoder
from penstock.engine.connectors.kafka.formats.raw import RawValues
from penstock.engine.connectors.kafka.letter_topic import LetterTopic
from penstock.engine.connectors.kafka.rows import row_maker
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.source import KafkaSource, ReadBounds
from penstock.engine.connectors.kafka.topic_places import Where
from penstock.model.dead_letters import LetterTarget
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import OptionError
from penstock.model.option_literals import MessageFormat, OnError, Tombstones
from penstock.model.schema import Fields, to_arrow_type

Key = str | Mapping[str, Any] | None


def read_kafka(
    topics: str | Sequence[str],
    *,
    kafka: Mapping[str, Any] | str,
    schema: Fields | str | Path | None = None,
    format: MessageFormat | ValueDecoder = "json",
    message: type[Any] | None = None,
    registry: RegistryOption = None,
    strict: bool = False,
    key: Key = None,
    metadata: Mapping[str, str] | None = None,
    tombstones: Tombstones = "skip",
    start: Where = "earliest",
    until: Where | None = None,
    discovery: Duration | None = "30s",
    time: str | None = None,
    watermark: Duration = 0,
    max_ahead: Duration | None = None,
    on_error: OnError = "dead_letter",
    dead_letter_topic: str | None = None,
    shed: bool = True,
    job: Job | None = None,
) -> Stream:
    """Read a topic, several, or all that a pattern such as ``"^bids-.*"`` matches.

    ``kafka`` is ``"HOST:PORT"`` or a mapping of librdkafka's settings, with secrets as ``env:NAME`` or ``file:PATH``.
    ``format`` is ``json`` (an object per message, with the fields of ``schema``), ``raw`` (one column: bytes, text,
    or a number as Java's serialisers write it), ``avro`` (``schema`` is the JSON of an Avro schema or the path of a
    file with it), ``protobuf`` (``message`` is a generated class) or ``arrow`` (IPC streams, any number of rows each).
    ``registry`` is the URL of a schema registry, or the settings of its client; messages then name the schema they
    were written with, and without ``schema`` the newest of ``TOPIC-value`` is read.

    A JSON message without a field that the schema requires is a bad record: ``int`` is required, ``int | None`` is not,
    an Arrow field if it is not nullable. Others are passed over; with ``strict`` a message that has one is bad, too.

    ``key="name"`` gives the key as a column of bytes, and ``key={"name": str}`` as text or a number. ``metadata`` gives
    more columns, ``{"offset": "kafka_offset"}``; there are ``topic, partition, offset, timestamp, timestamp_type, key,
    headers, tombstone``. Messages without a value, which delete their key in compacted topics, are counted and
    skipped; with ``tombstones="keep"``, or if ``metadata`` asks for ``tombstone``, they are rows whose value columns
    are null.

    ``start`` is where a job without a checkpoint begins: ``earliest``, ``latest``, a time, or offsets such as
    ``{"bids/0": 17}``. ``until`` makes the stream bounded: ``latest`` (what is there when the run begins), a time, or
    the offsets that are no longer read. It belongs to the run: the next one goes on from the checkpoint up to its own.
    Partitions that come later are found every ``discovery`` (None: never) and read
    from their first message on. Rows of transactions are read once they are committed. For the other options see
    `read`; ``time`` may name a column of ``metadata``, as in ``metadata={"timestamp": "at"}, time="at"``.

    ``dead_letter_topic`` takes the messages that cannot be read, in the same cluster: with their own key, value and
    headers, and headers that tell where they came from and what is wrong (see `dead_letter_topic`).

    Raises:
        OptionError: an option has an impossible value.
        SchemaError: the format needs a schema, or two columns have the same name.
    """
    if isinstance(format, ValueDecoder):
        value = format
    else:
        value = decoder(format, schema, topics=topics, message=message, registry=registry, strict=strict)
    settings = KafkaSettings(kafka)
    source = KafkaSource(
        topics,
        settings,
        row_maker(value, _key(key), metadata, tombstones),
        ReadBounds(start, until, None if discovery is None else to_microseconds(discovery, "discovery")),
    )
    letters = None if dead_letter_topic is None else _letters_of(source, dead_letter_topic, settings)
    return read(
        source,
        time=time,
        watermark=watermark,
        max_ahead=max_ahead,
        on_error=on_error,
        dead_letters=letters,
        shed=shed,
        job=job,
    )


def dead_letter_topic(topic: str, *, kafka: Mapping[str, Any] | str) -> LetterTarget:
    """Say where the dead letters of a whole job go: ``run(dead_letters=dead_letter_topic("dead", kafka=...))``.

    Rejected messages of Kafka are written with their own key, value and headers; what operators reject, as the JSON of
    the row. Headers ``penstock.error.class``, ``.message``, ``.stage`` (``decode``, ``udf``, ``sink``), ``.operator``,
    ``.topic``, ``.partition``, ``.offset``, ``.timestamp``, ``.job``, ``.epoch``, ``.attempt`` and ``.traceback`` are
    added as far as they are known. The topic must be there. Letters are written at least once, before a checkpoint
    counts on them; a topic that cannot be written fails the job.

    Raises:
        OptionError: this is no name of a topic, or a setting is wrong.
    """
    return LetterTopic(topic, KafkaSettings(kafka))


def _letters_of(source: KafkaSource, topic: str, settings: KafkaSettings) -> LetterTopic:
    if source.reads(topic):
        raise OptionError(f"dead_letter_topic={topic!r} is read itself, which would never end; choose another topic")
    return LetterTopic(topic, settings)


def _key(key: Key) -> ValueDecoder | None:
    if key is None:
        return None
    if isinstance(key, str):
        return RawValues(pa.field(key, pa.binary()))
    if len(key) != 1:
        raise OptionError(f"key= is the name of one column, or such a name and its type, not {key!r}")
    [(name, kind)] = key.items()
    return RawValues(pa.field(name, to_arrow_type(kind)))
