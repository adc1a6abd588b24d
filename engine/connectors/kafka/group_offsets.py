"""Tells Kafka how far a job has come, so that tools which show the lag of groups show it. Called after checkpoints.

Nothing reads these offsets back: where a job goes on is in its checkpoint (docs/design/kafka.md 1).
"""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.engine.connectors.kafka import clients
from penstock.engine.connectors.kafka.topics import split_name


def commit_offsets(admin: AdminClient, group: str, offsets: Mapping[str, int]) -> None:
    """Commit offsets by partition for a group that has no members; what goes wrong is logged."""
    if not offsets:
        return
    partitions = [TopicPartition(*split_name(name), offset) for name, offset in offsets.items()]
    for answer in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)]).values():
        answer.add_done_callback(_log)


def _log(answer: "Future[Any]") -> None:
    try:
        wrong = [item for item in answer.result().topic_partitions if item.error is not None]
    except KafkaException as error:
        clients.LOGGER.info("offsets were not committed for monitoring: %s", error)
        return
    for item in wrong:
        clients.LOGGER.info("offsets of %s were not committed for monitoring: %s", item.topic, item.error)
