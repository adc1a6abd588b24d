"""Sends again what a client had that has lost all brokers for good: with the next one, in order, before what follows.

librdkafka says of a message that was not delivered neither its time nor its headers, so batches are kept until all
their messages have arrived. Used by the writer that sends at once, which may repeat rows.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.engine.connectors.kafka.clients import make_producer
from penstock.engine.connectors.kafka.lost_brokers import BrokerWatch
from penstock.engine.connectors.kafka.messenger import NO_BROKER, Messenger, rows_of
from penstock.engine.connectors.kafka.settings import KafkaSettings

_PURGED = frozenset({KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE})
"""What becomes of messages that a client gives back."""

_PURGE_S = 1.0
"""How long a client is waited for that is to give back what it has."""


class _Handed:
    """Messages that a client gets together; it keeps this until it knows what has become of each.

    ``rows`` of them, the first ones, it has got. Each knows what was handed over ``next``, so that nothing is kept that
    was handed over before all that is under way.
    """

    def __init__(self, number: int, messages: pa.RecordBatch, fail: "Callable[[_Handed, KafkaError], None]") -> None:
        self.number = number
        self.messages = messages
        self.rows = 0
        self.next: _Handed | None = None
        self._fail = fail
        self._items: Iterator[tuple[Any, Any, int, Any]] | None = None
        self._refused: tuple[Any, ...] = ()

    @property
    def left(self) -> int:
        """How many messages the client has not got yet."""
        return int(self.messages.num_rows) - self.rows

    def hand_over(self, producer: Producer, topic: str) -> bool:
        """Hand messages over as far as there is room; return whether that was all of them.

        Raises:
            KafkaException: the client refuses one.
        """
        produce = producer.produce
        items = self._items = rows_of(self.messages) if self._items is None else self._items
        refused, self._refused = self._refused, ()
        rows = self.rows
        for item in chain(refused, items):
            content, name, at, header = item
            try:
                if header is None:
                    produce(topic, content, name, timestamp=at, on_delivery=self)
                else:
                    produce(topic, content, name, timestamp=at, headers=header, on_delivery=self)
            except (BufferError, KafkaException) as refusal:
                self.rows, self._refused = rows, (item,)
                if isinstance(refusal, BufferError):
                    return False
                raise
            rows += 1
        self.rows, self._items = rows, None
        return True

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take in that a message was not delivered."""
        if error is not None:
            self._fail(self, error)


class LastingMessenger(Messenger):
    """A `Messenger` whose client may lose all brokers: what it had is sent again by another one.

    All from the first message on that had not arrived is repeated, so that of two messages with a key the later one
    comes last; so all that was handed over since the oldest message under way is kept. It has no transactions, and is
    for one thread.
    """

    def __init__(self, settings: KafkaSettings, topic: str, client_id: str) -> None:
        """Make the producer; it connects in the background.

        Raises:
            UserError: a setting is unknown or wrong, or a secret is not where it should be.
        """
        super().__init__(settings, topic, client_id)
        self._pending = deque[_Handed]()
        self._batches = 0
        self._last: _Handed | None = None
        self._given_back: dict[_Handed, int] | None = None

    def handing_over(self, messages: pa.RecordBatch) -> Iterator[None]:
        """Hand messages over, in order; yield whenever the client has no room for the next one.

        Raises:
            KafkaException: as `put`.
        """
        self._given += messages.num_rows
        self._pending.append(self._next(messages))
        while not self._hand_over():
            yield
            self._serve(0)
        self._serve(0)

    def abandon(self) -> None:
        """End the producer at once: what is not sent is not wanted."""
        if self._producer is not None:
            # Batches are let go of when the client has said what has become of them.
            self._given_back = {}
            self._producer.purge()
            self._producer.flush(_PURGE_S)
        super().abandon()

    def _make_producer(self) -> Producer:
        return make_producer(self._settings, self._ids[0], self._complain, on_failure=self._fail)

    def _next(self, messages: pa.RecordBatch) -> _Handed:
        self._batches += 1
        return _Handed(self._batches, messages, self._take_failure)

    def _hand_over(self) -> bool:
        """Hand over what is pending as far as there is room; return whether that was all of it."""
        while self._pending:
            handed = self._pending[0]
            if handed is not self._last:
                if self._last is not None:
                    self._last.next = handed
                self._last = handed
            if not handed.hand_over(self.producer, self._topic):
                return False
            self._pending.popleft()
        return True

    def _is_under_way(self, seconds: float) -> bool:
        is_handed = self._hand_over()
        return bool(self.producer.flush(seconds)) or not is_handed

    def _left(self) -> int:
        return len(self.producer) + sum(handed.left for handed in self._pending)

    def _take_failure(self, handed: _Handed, error: KafkaError) -> None:
        if self._given_back is not None and error.code() in _PURGED:
            self._given_back[handed] = self._given_back.get(handed, 0) + 1
        else:
            self._fail(error)

    def _lose(self) -> None:
        """Go on with another client, from the first message on that has not arrived."""
        back = self._given_back = dict[_Handed, int]()
        self.producer.purge()
        is_empty = not self.producer.flush(_PURGE_S)
        self._given_back = None
        if not is_empty:
            self._fail(NO_BROKER)
            return
        rest = [handed.messages.slice(handed.rows) for handed in self._pending]
        again = list[pa.RecordBatch]()
        handed = min(back, key=lambda one: one.number, default=None)
        while handed is not None:
            again.append(handed.messages.slice(0, handed.rows))
            handed = handed.next
        # Those that have arrived and come again count twice.
        self._given += sum(part.num_rows for part in again) - sum(back.values())
        self._last = None
        self._pending = deque(self._next(part) for part in (*again, *rest) if part.num_rows)
        self._watch = BrokerWatch(self._clock.monotonic_ns())
        self._producer = self._make_producer()
