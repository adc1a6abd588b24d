"""Notices a client that has lost all brokers for good, and so never asks for one again.

A cluster that stops names no broker in an answer about a topic; librdkafka then forgets all that it knew, and does not
begin anew from the addresses that it was given (its issue 5301). Such a client is silent, where one whose brokers are
only away says at least every 40 s why it cannot connect. Used by `messenger` and `fetcher`, which do not go on with it.
"""

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from penstock.engine.connectors.kafka.clients import error_of

ASK_NS = 5_000_000_000
"""How often a client is asked by whoever waits for it."""

MISSES = 12
"""A client that had no broker at so many questions in a row, and said nothing of why, has lost them: for a minute."""


class BrokerWatch:
    """What is known of one client's brokers. For one thread."""

    def __init__(self, now_ns: int) -> None:
        """Begin: a client that was just made is as good as one that has said something."""
        self._heard_ns = self._asked_ns = now_ns
        self._misses = 0

    @property
    def is_lost(self) -> bool:
        """Whether the client has lost its brokers for good."""
        return self._misses >= MISSES

    def hear(self, now_ns: int) -> None:
        """Take in that the client has a broker, or has said why not, or that nobody waits for it."""
        self._heard_ns, self._misses = now_ns, 0

    def is_due(self, now_ns: int) -> bool:
        """Return whether to ask the client, which is taken as done."""
        if now_ns - max(self._asked_ns, self._heard_ns) < ASK_NS:
            return False
        self._asked_ns = now_ns
        return True

    def miss(self) -> None:
        """Take in that the client had no broker when it was asked."""
        self._misses += 1


def has_broker(client: Producer | Consumer, topic: str) -> bool:
    """Return whether a client has a broker that it could ask; waits for no answer."""
    try:
        client.list_topics(topic, timeout=0)
    except KafkaException as raised:
        return error_of(raised).code() != KafkaError._TRANSPORT
    return True
