"""Reads a topic to its end, as a consumer of somebody else's would."""

from dataclasses import dataclass
from secrets import token_hex

import msgspec
from confluent_kafka import Consumer, TopicPartition


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
    level = "read_committed" if committed else "read_uncommitted"
    settings = {"bootstrap.servers": kafka, "group.id": token_hex(8), "isolation.level": level}
    reader = Consumer(
        {**settings, "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    )
    try:
        partitions = list(reader.list_topics(topic, 10.0).topics[topic].partitions)
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


def ids_in(kafka: str, topic: str, *, committed: bool = True) -> list[int]:
    """Return the field ``id`` of every message, sorted."""
    found = read_topic(kafka, topic, committed=committed)
    return sorted(msgspec.json.decode(message.value or b"")["id"] for message in found)
