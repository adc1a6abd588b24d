"""What a stream has written to a topic of Kafka, message by message, with the places that say what came last.

Called by `stream_output`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.connectors.kafka.formats.json import JsonEncoder, JsonValues
from penstock.engine.connectors.kafka.formats.raw import RawValues
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.model.job_graph import OperatorNode
from penstock.replay.frames import ReplayError
from penstock.replay.kafka_reading import read_rows
from penstock.replay.kafka_slices import OffsetRange, Place
from penstock.replay.kafka_travel import parts_of
from penstock.replay.offsets import Chosen, ask
from penstock.replay.spark_types import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELETED = "deleted"
"""The field that a sink adds to upserts, and the column that tells tombstones here."""

PARTITION, OFFSET = "$partition", "$offset"
"""Where a message stands."""

_KEY = "$key"


def topic_rows(session: SparkSession, node: OperatorNode, sink: KafkaSink, written: pa.Schema) -> DataFrame:
    """Return the committed messages of a sink's topic that are there now, as rows of what it writes, with their places.

    A tombstone has the columns of the newest row of its key, and true in `DELETED`.

    Raises:
        ReplayError: the messages are not JSON, or do not hold all columns.
        UserError: the topic is gone.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    upsert = DELETED in written.names
    values = pa.schema([field for field in written if field.name != DELETED or not upsert])
    _check_format(node, sink, values)
    source = KafkaSource(
        sink.topic,
        sink._settings,
        JsonValues(values),
        key=RawValues(pa.field(_KEY, pa.binary())) if upsert else None,
        metadata={"partition": PARTITION, "offset": OFFSET} | ({"tombstone": DELETED} if upsert else {}),
        tombstones="keep" if upsert else "skip",
    )
    parts = parts_of(source)
    state = ask(parts.settings, parts.topics)
    ranges = [
        OffsetRange(topic, partition, Place(low), Place(state.high[topic, partition]))
        for (topic, partition), low in sorted(state.low.items())
    ]
    rows = read_rows(session, source, Chosen(tuple(ranges), state.ids))
    if not upsert:
        return rows
    # A tombstone says which key it is about by the message's key alone.
    before = Window.partitionBy(_KEY).orderBy(PARTITION, OFFSET)
    filled = {
        name: f.when(
            f.col(DELETED), f.last(f.when(~f.col(DELETED), f.col(quoted_name(name))), ignorenulls=True).over(before)
        ).otherwise(f.col(name))
        for name in values.names
    }
    return rows.withColumns(filled)


def _check_format(node: OperatorNode, sink: KafkaSink, values: pa.Schema) -> None:
    if sink._layout.headers is not None:
        raise ReplayError(
            f"sink {node.name!r} writes column {sink._layout.headers!r} as headers, which are not held against a replay"
        )
    if not isinstance(sink._format.make(values), JsonEncoder):
        raise ReplayError(
            f"sink {node.name!r} does not write JSON to topic {sink.topic!r}, and only JSON is held against a replay"
        )
