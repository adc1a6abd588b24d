"""A pipeline's Kafka source read twice, by a stream in this process and by Spark. Called by tests of reading Kafka."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import DataFrame

from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.engine.connectors.kafka.topics import Topics
from penstock.model.job_graph import SourceSpec
from penstock.replay.offsets import OffsetSelection, choose, topic_state
from penstock.replay.spark_types import from_spark_batch

Rows = list[dict[str, Any]]

METADATA = {
    "topic": "m_topic",
    "partition": "m_partition",
    "offset": "m_offset",
    "timestamp": "m_timestamp",
    "timestamp_type": "m_type",
    "key": "m_key",
    "headers": "m_headers",
}
"""All that can be told of a message but whether it is a tombstone, which changes what becomes of those."""


def produce(kafka: str, topic: str, values: Sequence[Any], partition: int = 0, **more: Any) -> None:
    """Write messages; a whole number becomes a JSON object."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    for value in values:
        data = b'{"id":%d,"name":"n%d"}' % (value, value) if isinstance(value, int) else value
        producer.produce(topic, data, partition=partition, **more)
    assert producer.flush(20) == 0


def source_of(topics: str | Sequence[str], kafka: str, **options: Any) -> KafkaSource:
    """Return the source of a pipeline."""
    stream = read_kafka(topics, kafka=kafka, job=Job(), **options)
    [node] = stream.job.graph.operators.values()
    assert isinstance(node.spec, SourceSpec) and isinstance(node.spec.source, KafkaSource)
    return node.spec.source


def stream_rows(topics: str | Sequence[str], kafka: str, **options: Any) -> tuple[Rows, Rows]:
    """Return the rows and the dead letters of a stream that reads up to what is committed now."""
    stream = read_kafka(topics, kafka=kafka, job=Job(), **{"until": "latest", **options})
    letters, rows = stream.side_output("dead_letter").collect(), stream.collect()
    rows.job.run("reading")
    return rows.rows(), letters.rows()


def await_ends(kafka: str, topic: str, ends: Sequence[int]) -> None:
    """Wait until partitions are committed up to these offsets: markers of a transaction come after it has ended.

    Raises:
        AssertionError: they are not within 30 s.
    """
    until, high = time.monotonic() + 30, dict[tuple[str, int], int]()
    while time.monotonic() < until:
        high = dict(topic_state(KafkaSettings(kafka), Topics((topic,), ())).high)
        if [high[topic, partition] for partition in range(len(ends))] == list(ends):
            return
        time.sleep(0.05)
    raise AssertionError(f"{topic} is committed up to {high}, not {ends}")


def committed(source: KafkaSource) -> dict[str, int]:
    """Return up to where everything is committed, as `choose` takes it."""
    return {
        f"{topic}/{partition}": high
        for (topic, partition), high in topic_state(source.settings, source.topics).high.items()
    }


def everything(source: KafkaSource) -> OffsetSelection:
    """Choose all that is there."""
    return choose(source, "source", start="earliest", stop=committed(source))


def rows_of(frame: DataFrame, schema: pa.Schema) -> Rows:
    """Return the rows of a query in the types of a source."""
    batches = frame.toArrow().combine_chunks().to_batches()
    return [row for batch in batches for row in from_spark_batch(batch, schema).to_pylist()]


def in_order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rows as texts, in an order that does not depend on where they came from."""
    return sorted(repr(sorted(row.items())) for row in rows)
