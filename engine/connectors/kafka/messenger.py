"""Hands messages to librdkafka's producer, and waits when its queue is full.

Used by the publisher of kept epochs and by the topic of dead letters; `lasting_messenger` is that of the writer that
sends at once.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.engine.connectors.kafka.clients import UNREACHABLE, error_of, make_producer, outage
from penstock.engine.connectors.kafka.encoded import byte_lists, header_lists
from penstock.engine.connectors.kafka.lost_brokers import BrokerWatch, has_broker
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.core.clock import SystemClock
from penstock.model.outstanding import Outstanding

_WAIT_S = 0.1
"""How long the producer is waited for at a time, so that Ctrl-C is heard."""

_FULL_S = 0.01
"""How long a full queue is left to empty; deliveries are no events, so nothing else ends the wait."""

NO_BROKER = KafkaError(KafkaError._ALL_BROKERS_DOWN, "the client knows no broker any more")


class Messenger:
    """A producer for one topic. After a failure it is of no use any more, nor once its client has lost all brokers."""

    def __init__(
        self, settings: KafkaSettings, topic: str, client_id: str, transactional_id: str | None = None
    ) -> None:
        """Make the producer; it connects in the background.

        Raises:
            UserError: a setting is unknown or wrong, or a secret is not where it should be.
        """
        self.undelivered: KafkaError | None = None
        self.complaint: KafkaError | None = None
        """What the client said last about itself; calls that time out do so because of it."""
        self._given = self._held_back = 0
        self._unreachable: KafkaError | None = None
        self._outage = outage(settings)
        self._topic = topic
        self._settings = settings
        self._ids = client_id, transactional_id
        self._clock = SystemClock()
        self._watch = BrokerWatch(self._clock.monotonic_ns())
        self._producer: Producer | None = self._make_producer()

    @property
    def producer(self) -> Producer:
        """The producer."""
        assert self._producer is not None
        return self._producer

    def cause(self) -> KafkaError | None:
        """Return why the open transaction must be given up, None if it need not: asked for another, the client tells.

        Messages that are given up with it say only that they were.
        """
        try:
            self.producer.begin_transaction()
        except KafkaException as error:
            cause = error_of(error)
            return cause if cause.fatal() or cause.txn_requires_abort() else None
        return None

    def put(self, messages: pa.RecordBatch) -> None:
        """Hand messages over, in order; wait while the client has no room.

        Raises:
            KafkaException: the client refuses one, or one that was handed over before was not delivered.
        """
        for _ in self.handing_over(messages):
            self.wait_for_room()

    def wait_for_room(self) -> None:
        """Wait a moment for the client to have room for more.

        Raises:
            KafkaException: a message was not delivered.
        """
        self._serve(_FULL_S)

    def handing_over(self, messages: pa.RecordBatch) -> Iterator[None]:
        """Hand messages over, in order; yield whenever the client has no room for the next one.

        Raises:
            KafkaException: as `put`.
        """
        topic, produce, count = self._topic, self.producer.produce, messages.num_rows
        self._given += count
        for number, (content, name, at, header) in enumerate(rows_of(messages)):
            while True:
                try:
                    if header is None:
                        produce(topic, content, name, timestamp=at)
                    else:
                        produce(topic, content, name, timestamp=at, headers=header)
                    break
                except BufferError:
                    self._held_back = count - number
                    yield
                    self._serve(0)
        self._held_back = 0
        self._serve(0)

    def outstanding(self) -> Outstanding | None:
        """Return what is not delivered yet, without waiting for it.

        None: everything is, or something will never be, which `flush` raises.

        Raises:
            KafkaException: the client refuses a message.
        """
        self._is_under_way(0)
        self._look_after_brokers()
        left = self._left()
        if self.undelivered is not None or not left:
            self._note_answers(delivered=self.undelivered is None)
            return None
        self._note_answers(delivered=False)
        where = f"topic {self._topic!r} of Kafka at {self._settings.bootstrap}"
        return Outstanding(left, self._given - left, where)

    def flush(self, until: Callable[[], None] = lambda: None) -> None:
        """Wait until everything is delivered; ``until`` may raise.

        Raises:
            KafkaException: something was not delivered.
        """
        while self._is_under_way(_WAIT_S):
            self._look_after_brokers()
            self._check()
            until()
            self._note_answers(delivered=False)
        self._check()
        self._note_answers(delivered=True)

    def close(self) -> None:
        """Send what is left and end the producer."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def abandon(self) -> None:
        """End the producer at once: what is not sent is not wanted, and the next one with its id ends its transaction.

        It is not asked to abort: one that is fenced cannot, and one without a broker would wait for it.
        """
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def _is_under_way(self, seconds: float) -> bool:
        """Return whether something is not delivered, after waiting for that for so long."""
        return bool(self.producer.flush(seconds))

    def _left(self) -> int:
        """Return how many messages are not delivered."""
        return len(self.producer) + self._held_back

    def _lose(self) -> None:
        """Take in that the client has lost all brokers for good."""
        self.undelivered = NO_BROKER

    def _make_producer(self) -> Producer:
        client_id, transactional_id = self._ids
        return make_producer(self._settings, client_id, self._complain, transactional_id, self._fail)

    def _look_after_brokers(self) -> None:
        """Say that no broker is there while something waits for one, and give a client up that will have none."""
        if self.undelivered is not None:
            return
        now_ns = self._clock.monotonic_ns()
        if not self._left():
            self._watch.hear(now_ns)
        elif self._watch.is_due(now_ns):
            if has_broker(self.producer, self._topic):
                self._watch.hear(now_ns)
                return
            self._unreachable = self._unreachable or NO_BROKER
            self._watch.miss()
            if self._watch.is_lost:
                self._lose()

    def _note_answers(self, *, delivered: bool) -> None:
        """Say that the cluster is away, or that it is back."""
        if self._unreachable is None:
            return
        if not delivered:
            self._outage.lost(self._unreachable.str())
            return
        self._unreachable = None
        self._outage.back()

    def _serve(self, seconds: float) -> None:
        self.producer.poll(seconds)
        self._look_after_brokers()
        self._check()
        if self._unreachable is not None:
            # A client that was just made has nothing, and need not have a broker.
            self._note_answers(delivered=not len(self.producer) and has_broker(self.producer, self._topic))

    def _check(self) -> None:
        if self.undelivered is not None:
            raise KafkaException(self.undelivered)

    def _fail(self, error: KafkaError) -> None:
        self.undelivered = self.undelivered or error

    def _complain(self, error: KafkaError) -> None:
        self.complaint = error
        self._watch.hear(self._clock.monotonic_ns())
        if error.code() in UNREACHABLE:
            self._unreachable = error


def rows_of(messages: pa.RecordBatch) -> Iterator[tuple[Any, Any, int, Any]]:
    """Return value, key, time in ms (0: that of sending) and headers of each message, as the client takes them."""
    key, value, time, headers = messages.columns
    times = [0] * len(time) if time.null_count == len(time) else time.fill_null(0).to_pylist()
    return zip(byte_lists(value), byte_lists(key), times, header_lists(headers), strict=True)
