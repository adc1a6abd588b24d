"""The output of a stream to a topic of Kafka, message by message, with partitions and offsets that order it.

Called by `stream_output`, and for topics of corrections by `pending_corrections`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.engine.checkpoint.reader import Checkpoint
from penstock.engine.connectors.kafka.rows import row_maker
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.model.job_graph import OperatorNode, SinkSpec
from penstock.replay.committed_output import PublishedTopic
from penstock.replay.kafka_batches import ERROR
from penstock.replay.kafka_reading import read_rows
from penstock.replay.kafka_slices import OffsetRange, RowPosition
from penstock.replay.offsets import OffsetSelection, topic_state
from penstock.replay.topic_formats import KEY, from_key, own_type, value_columns

DELETED = "deleted"
"""The field that a sink adds to upserts, and the column that tells tombstones here."""

WEIGHT = "weight"
"""The field that a sink adds to a changelog."""

PARTITION, OFFSET = "$partition", "$offset"
"""The position of a message."""


def topic_rows(
    session: SparkSession,
    node: OperatorNode,
    sink: KafkaSink,
    written: pa.Schema,
    checkpoint: Checkpoint | None = None,
) -> DataFrame:
    """Return the committed messages of a sink's topic that are there now, as rows of what it writes, with their places.

    Upserts have their `KEY`, and tombstones true in `DELETED`. A message that is none of the sink's, since it cannot be
    decoded or has no value, is a row of nulls, so that it is too much. Of a topic that is written exactly once there is
    to be all up to the checkpoint, and nothing behind it.

    Raises:
        ReplayError: the messages do not hold all columns, or are not those up to the checkpoint.
        SchemaError: a column cannot be read again.
        UserError: the topic is gone.
    """
    assert isinstance(node.spec, SinkSpec)
    upsert, alone = node.spec.mode == "upsert", sink.format.alone
    metadata = {"partition": PARTITION, "offset": OFFSET} | ({"tombstone": DELETED} if upsert else {})
    if upsert or alone:
        metadata["key"] = KEY
    source = topic_source(node, sink, sink.topic, written, metadata)
    published = PublishedTopic(node, sink, checkpoint) if sink.transactional and checkpoint is not None else None
    if published is not None:
        published.wait()
    chosen = everything_in(source)
    if published is not None:
        published.check_nothing_later()
    rows = in_own_types(read_rows(session, source, chosen, errors=True).drop(ERROR), value_columns(node, sink, written))
    if alone:
        keys = {name: from_key(written.field(name).type) for name in sink.layout.key}
        rows = rows.withColumns({name: f.expr(sql) for name, sql in keys.items() if sql is not None})
    added = {DELETED: False} if upsert else {WEIGHT: 1} if node.spec.mode == "changelog" else {}
    return rows.withColumns({name: f.coalesce(name, f.lit(value)) for name, value in added.items()})


def in_own_types(rows: DataFrame, values: pa.Schema) -> DataFrame:
    """Return rows that were read by a sink's format with their columns in the types that the sink was given."""
    return rows.withColumns({field.name: f.expr(own_type(field.name, field.type)) for field in values})


def topic_source(
    node: OperatorNode, sink: KafkaSink, topic: str, written: pa.Schema, metadata: Mapping[str, str]
) -> KafkaSource:
    """Return a source of what a sink writes of rows ``written``, in a topic, with columns of ``metadata`` beside.

    Messages without a value are rows of nulls.

    Raises:
        ReplayError: the messages do not hold all columns.
        SchemaError: a column cannot be read again.
    """
    values = value_columns(node, sink, written)
    return KafkaSource(
        topic,
        sink.settings,
        row_maker(sink.format.read(values).restrict(values.names), metadata=metadata, tombstones="keep"),
    )


def everything_in(source: KafkaSource) -> OffsetSelection:
    """Return what is there now of a source's topics, as far as it is committed.

    Raises:
        UserError: a topic is gone, or the cluster refuses.
        RetryableError: it does not answer.
    """
    state = topic_state(source.settings, source.topics)
    ranges = [
        OffsetRange(topic, partition, RowPosition(low), RowPosition(state.high[topic, partition]))
        for (topic, partition), low in sorted(state.low.items())
    ]
    return OffsetSelection(tuple(item for item in ranges if item.offsets), state.ids)
