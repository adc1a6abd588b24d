"""Markers on the broker: the committed offset and metadata of a consumer group called like its transactional id.

They are written inside the transaction of what they stand for, so they are there if and only if that is
(docs/design/kafka.md 3).
"""

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.engine.connectors.kafka.receipts import Marker
from penstock.model.errors import FatalError

PARTITION = 0
"""Of the topic that is written to; offsets of a group are by partition, and this one is always there."""

_NO_OFFSET = 0


def marker_offset(topic: str, marker: Marker) -> TopicPartition:
    """Return what goes into the transaction."""
    return TopicPartition(topic, PARTITION, marker.epoch, metadata=msgspec.json.encode(marker).decode())


def read_marker(reader: Consumer, topic: str, timeout_s: float) -> Marker | None:
    """Return the marker of the reader's group, None if there is none.

    It waits until no transaction is open that may write it.

    Raises:
        KafkaException: it cannot be read.
        FatalError: what is there is no marker of ours.
    """
    (committed,) = reader.committed([TopicPartition(topic, PARTITION)], timeout=timeout_s)
    if committed.error is not None:
        raise KafkaException(committed.error)
    if committed.offset < _NO_OFFSET:
        return None
    try:
        marker = msgspec.json.decode(committed.metadata or "", type=Marker)
    except msgspec.MsgspecError as error:
        raise FatalError(
            f"the consumer group that marks what is published to topic {topic!r} was committed by something else "
            f"(offset {committed.offset}, metadata {committed.metadata!r}: {error}): give this job another name, or "
            "delete the group"
        ) from None
    if marker.epoch != committed.offset:
        raise FatalError(
            f"the marker for topic {topic!r} says epoch {marker.epoch}, and its offset is {committed.offset}"
        )
    return marker
