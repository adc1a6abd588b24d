"""Warns of messages that a topic's retention takes away at once, since their event times are older than it.

A broker goes by the timestamps of messages, and says nothing when it deletes them. Called by the sink's writers.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined] # exported at run time only

from penstock.engine.connectors.kafka.clients import ANSWER_S, LOGGER, answer_of, make_admin
from penstock.engine.connectors.kafka.settings import KafkaSettings

_POLICY, _RETENTION, _KIND = "cleanup.policy", "retention.ms", "message.timestamp.type"
_DAY_MS = 86_400_000


def time_retention_ms(settings: KafkaSettings, client_id: str, topic: str) -> int | None:
    """Return how old a message's timestamp may become before a broker may delete it.

    None: it may become as old as it likes, brokers write timestamps of their own, or this user may not ask.
    """
    admin = make_admin(settings, client_id)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        (answer,) = admin.describe_configs([resource], request_timeout=ANSWER_S).values()
        settings_by_name = {name: entry.value for name, entry in answer_of(admin, answer).items()}
    except KafkaException as error:
        LOGGER.info("the retention of topic %s was not told: %s", topic, error)
        return None
    if "delete" not in settings_by_name[_POLICY] or settings_by_name[_KIND] == "LogAppendTime":
        return None
    retention_ms = int(settings_by_name[_RETENTION])
    return retention_ms if retention_ms >= 0 else None


class ExpiryWatch:
    """Looks at the timestamps of one topic's messages and warns once."""

    def __init__(
        self,
        topic: str,
        retention_ms: int | None,
        now_ms: Callable[[], int],
        warn: Callable[[str], None] = LOGGER.warning,
    ) -> None:
        """``retention_ms`` is what `time_retention_ms` returned; ``now_ms`` counts from the epoch."""
        self._topic = topic
        self._retention_ms = retention_ms
        self._now_ms = now_ms
        self._warn = warn

    def look(self, messages: pa.RecordBatch) -> None:
        """Look at messages that are about to be written."""
        if self._retention_ms is None:
            return
        oldest_ms = pc.min(messages.column("timestamp_ms")).as_py()
        if oldest_ms is None or oldest_ms >= self._now_ms() - self._retention_ms:
            return
        self._warn(
            f"ROWS MAY VANISH: topic {self._topic!r} keeps messages for {self._retention_ms / _DAY_MS:g} days by their "
            "timestamps, and rows are written with event times older than that: the broker may delete them at any "
            "time. Write with timestamp=False, or give the topic a longer retention.ms (-1: for ever)"
        )
        self._retention_ms = None
