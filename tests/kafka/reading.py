"""Reads a topic to its end, as a consumer of somebody else's would."""

import time
from dataclasses import dataclass
from secrets import token_hex

import msgspec
from confluent_kafka import Consumer, TopicPartition

MARKERS_S = 60.0
"""Brokers mark transactions after they have said that these are committed, on a busy machine long after it.

No test leaves one open where it reads: that one is never marked.
"""

ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Message:
    """What came; the timestamp is in milliseconds."""

    key: bytes | None
    value: bytes | None
    partition: int
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def read_topic(kafka: str, topic: str, *, committed: bool = True) -> list[Message]:
    """Return every message of a topic, in order of partitions; only what is committed, or all that was written."""
    reader = _consumer(kafka, "read_committed" if committed else "read_uncommitted")
    try:
        partitions = list(reader.list_topics(topic, ANSWER_S).topics[topic].partitions)
        if committed:
            _await_markers(kafka, reader, [TopicPartition(topic, partition) for partition in partitions])
        reader.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[Message] = []
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            for message in reader.consume(5_000, 0.2):
                if message.error() is not None:
                    ended.add(message.partition())
                    continue
                found.append(
                    Message(
                        message.key(),
                        message.value(),
                        message.partition() or 0,
                        message.timestamp()[1],
                        tuple(message.headers() or ()),
                    )
                )
        return sorted(found, key=lambda message: message.partition)
    finally:
        reader.close()


def _await_markers(kafka: str, reader: Consumer, partitions: list[TopicPartition]) -> None:
    """Wait until what is committed is all that was written, for a moment."""
    writer = _consumer(kafka, "read_uncommitted")
    until = time.monotonic() + MARKERS_S
    try:
        while _ends(reader, partitions) != _ends(writer, partitions) and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        writer.close()


def _ends(consumer: Consumer, partitions: list[TopicPartition]) -> list[int]:
    return [consumer.get_watermark_offsets(partition, timeout=ANSWER_S)[1] for partition in partitions]


def _consumer(kafka: str, level: str) -> Consumer:
    settings = {"bootstrap.servers": kafka, "group.id": token_hex(8), "isolation.level": level}
    return Consumer(
        {**settings, "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    )


def ids_in(kafka: str, topic: str, *, committed: bool = True) -> list[int]:
    """Return the field ``id`` of every message, sorted."""
    found = read_topic(kafka, topic, committed=committed)
    return sorted(msgspec.json.decode(message.value or b"")["id"] for message in found)
