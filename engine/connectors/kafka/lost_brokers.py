"""Notices a client that knows no broker any more, and so never asks for one again.

A cluster that stops names no broker in an answer about a topic; librdkafka then forgets all that it knew, for good (its
issue 5301). Its statistics show that. Used by `producing` and `fetcher`, which go on with another client.
"""

import msgspec

STATISTICS = {"statistics.interval.ms": 2_000}
"""How often a client says which brokers it knows."""

_NAMED = frozenset({"learned", "configured"})
"""What a broker is that somebody has named: the cluster or the user. Others are places within the client."""

_LOOKS = 2
"""So many statistics in a row: between two sets of brokers there may be none for a moment."""


class _Broker(msgspec.Struct):
    source: str


class _Statistics(msgspec.Struct):
    brokers: dict[str, _Broker]


class BrokerWatch:
    """What one client has said of the brokers that it knows."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._without = 0

    @property
    def has_none(self) -> bool:
        """Whether the client knows no broker, and will know none."""
        return self._without >= _LOOKS

    def hear(self, statistics: str) -> None:
        """Take in statistics of the client, as JSON."""
        known = msgspec.json.decode(statistics, type=_Statistics).brokers.values()
        self._without = 0 if any(broker.source in _NAMED for broker in known) else self._without + 1
