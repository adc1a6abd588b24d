"""Hands messages to librdkafka's producer, waits when its queue is full, and sends anew what a lost client had.

Used by the writer that sends at once and by the publisher of kept epochs.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from operator import attrgetter

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.engine.connectors.kafka.clients import UNREACHABLE, error_of, make_producer, outage
from penstock.engine.connectors.kafka.encoded import byte_lists, header_lists
from penstock.engine.connectors.kafka.lost_brokers import BrokerWatch
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.outstanding import Outstanding

_WAIT_S = 0.1
"""How long the producer is waited for at a time, so that Ctrl-C is heard."""

_FULL_S = 0.01
"""How long a full queue is left to empty; deliveries are no events, so nothing else ends the wait."""

_PURGED = frozenset({KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE})
"""What becomes of messages that a client gives back."""

_NO_BROKER = KafkaError(KafkaError._ALL_BROKERS_DOWN, "the client knows no broker any more")

_ALL = object()


class _Handed:
    """Messages that a client gets together; it keeps this until it knows what has become of each.

    ``rows`` of them, the first ones, it has got.
    """

    __slots__ = ("_fail", "messages", "number", "rows")

    def __init__(self, number: int, messages: pa.RecordBatch, fail: Callable[["_Handed", KafkaError], None]) -> None:
        self.number = number
        self.messages = messages
        self.rows = 0
        self._fail = fail

    @property
    def left(self) -> int:
        """How many messages the client has not got yet."""
        return int(self.messages.num_rows) - self.rows

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take in that a message was not delivered."""
        if error is not None:
            self._fail(self, error)


class Messenger:
    """A producer for one topic. After a failure it is of no use any more.

    A client that has lost all brokers gets a successor, which sends anew what was not delivered; with a transaction it
    counts as a failure.
    """

    def __init__(
        self, settings: KafkaSettings, topic: str, client_id: str, transactional_id: str | None = None
    ) -> None:
        """Make the producer; it connects in the background.

        Raises:
            UserError: a setting is unknown or wrong, or a secret is not where it should be.
        """
        self.undelivered: KafkaError | None = None
        self._given = self._batches = 0
        self._handed: _Handed | None = None
        self.complaint: KafkaError | None = None
        """What the client said last about itself; calls that time out do so because of it."""
        self._unreachable: KafkaError | None = None
        self._outage = outage(settings)
        self._topic = topic
        self._settings = settings
        self._client_id, self._transactional_id = client_id, transactional_id
        self._given_back: dict[_Handed, int] = {}
        self._again: list[_Handed] = []
        self._handing_again: Iterator[None] = iter(())
        self._watch = BrokerWatch()
        self._producer: Producer | None = self._made()

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
        self._given += messages.num_rows
        while not self._has_handed_again():
            yield
            self._serve(0)
        self._handed = self._next(messages)
        for _ in self._handing(self._handed):
            while True:
                yield
                self._serve(0)
                if self._has_handed_again():
                    break
        self._handed = None
        self._serve(0)

    def outstanding(self) -> Outstanding | None:
        """Return what is not delivered yet, without waiting for it.

        None: everything is, or something will never be, which `flush` raises.
        """
        self.producer.flush(0)
        self._look_after_brokers()
        self._has_handed_again()
        left = len(self.producer) + sum(handed.left for handed in self._again)
        left += 0 if self._handed is None else self._handed.left
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
        while self.producer.flush(_WAIT_S) or not self._has_handed_again():
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
            self._note_answers(delivered=not len(self.producer))

    def _check(self) -> None:
        if self.undelivered is not None:
            raise KafkaException(self.undelivered)

    def _fail(self, handed: _Handed, error: KafkaError) -> None:
        if self._watch.has_none and error.code() in _PURGED:
            self._given_back[handed] = self._given_back.get(handed, 0) + 1
        else:
            self.undelivered = self.undelivered or error

    def _complain(self, error: KafkaError) -> None:
        self.complaint = error
        if error.code() in UNREACHABLE:
            self._unreachable = error

    def _next(self, messages: pa.RecordBatch) -> _Handed:
        self._batches += 1
        return _Handed(self._batches, messages, self._fail)

    def _handing(self, handed: _Handed) -> Iterator[None]:
        """Hand messages to whichever client there is; yield whenever it has no room for the next one."""
        key, value, time, headers = handed.messages.columns
        times = [0] * len(time) if time.null_count == len(time) else time.fill_null(0).to_pylist()
        columns = byte_lists(value), byte_lists(key), times, header_lists(headers)
        topic, produce = self._topic, self.producer.produce
        for number, (content, name, at, header) in enumerate(zip(*columns, strict=True)):
            while True:
                try:
                    if header is None:
                        produce(topic, content, name, timestamp=at, on_delivery=handed)
                    else:
                        produce(topic, content, name, timestamp=at, headers=header, on_delivery=handed)
                    break
                except BufferError:
                    handed.rows = number
                    yield
                    produce = self.producer.produce
        handed.rows = len(times)

    def _has_handed_again(self) -> bool:
        """Hand over what the client before has not delivered, as far as there is room; return whether that is all."""
        if self._again and next(self._handing_again, _ALL) is _ALL:
            self._again = []
        return not self._again

    def _made(self) -> Producer:
        return make_producer(self._settings, self._client_id, self._complain, self._transactional_id, watch=self._watch)

    def _look_after_brokers(self) -> None:
        """Go on with another client if this one knows no broker any more, and never will."""
        if not self._watch.has_none or self.undelivered is not None:
            return
        if self._unreachable is None:
            self._unreachable = _NO_BROKER
        if self._transactional_id is not None:
            self.undelivered = _NO_BROKER
            return
        self.producer.purge()
        while self.producer.flush(_WAIT_S):
            pass
        back, self._given_back = self._given_back, {}
        # Those of a batch that have arrived come again with the others.
        parts = [handed.messages.slice(0, handed.rows) for handed in sorted(back, key=attrgetter("number"))]
        self._given += sum(part.num_rows for part in parts) - sum(back.values())
        first = [self._next(part) for part in parts]
        self._handing_again = chain(chain.from_iterable(map(self._handing, first)), self._handing_again)
        self._again = [*first, *self._again]
        self._watch = BrokerWatch()
        self._producer = self._made()
