"""Hands messages to librdkafka's producer, waits when its queue is full, and says why messages were not delivered.

Used by the writer that sends at once and by the publisher of kept epochs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection

from penstock.engine.connectors.kafka.clients import (
    CONTACT_S,
    UNKNOWN_TOPIC,
    UNREACHABLE,
    answer_of,
    error_of,
    failure,
    make_admin,
    make_producer,
    outage,
)
from penstock.engine.connectors.kafka.encoded import byte_lists, header_lists
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import FatalError, PenstockError, UserError
from penstock.model.outstanding import Outstanding

_WAIT_S = 0.1
"""How long the producer is waited for at a time, so that Ctrl-C is heard."""

_FULL_S = 0.01
"""How long a full queue is left to empty; deliveries are no events, so nothing else ends the wait."""

_LOOKS = 4
_LOOK_AGAIN_S = 0.5

_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)

REFUSED = frozenset({*_TOO_LARGE, KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD})
"""What a broker says of messages that it will never take."""


class Messenger:
    """A producer for one topic. After a failure it is of no use any more."""

    def __init__(
        self, settings: KafkaSettings, topic: str, client_id: str, transactional_id: str | None = None
    ) -> None:
        """Make the producer; it connects in the background.

        Raises:
            UserError: a setting is unknown or wrong, or a secret is not where it should be.
        """
        self.undelivered: KafkaError | None = None
        self._given = self._held_back = 0
        self.complaint: KafkaError | None = None
        """What the client said last about itself; calls that time out do so because of it."""
        self._unreachable: KafkaError | None = None
        self._outage = outage(settings)
        self._topic = topic
        self._settings = settings
        self._producer: Producer | None = make_producer(
            settings, client_id, self._complain, transactional_id, self._fail
        )

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
        topic, produce = self._topic, self.producer.produce
        key, value, time, headers = messages.columns
        times = [0] * len(time) if time.null_count == len(time) else time.fill_null(0).to_pylist()
        columns = byte_lists(value), byte_lists(key), times, header_lists(headers)
        self._given += len(times)
        for number, (content, name, at, header) in enumerate(zip(*columns, strict=True)):
            while True:
                try:
                    if header is None:
                        produce(topic, content, name, timestamp=at)
                    else:
                        produce(topic, content, name, timestamp=at, headers=header)
                    break
                except BufferError:
                    self._held_back = len(times) - number
                    yield
                    self._serve(0)
        self._held_back = 0
        self._serve(0)

    def outstanding(self) -> Outstanding | None:
        """Return what is not delivered yet, without waiting for it.

        None: everything is, or something will never be, which `flush` raises.
        """
        left = self.producer.flush(0) + self._held_back
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
        while self.producer.flush(_WAIT_S):
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
        self._check()
        if self._unreachable is not None:
            self._note_answers(delivered=not len(self.producer))

    def _check(self) -> None:
        if self.undelivered is not None:
            raise KafkaException(self.undelivered)

    def _fail(self, error: KafkaError) -> None:
        self.undelivered = self.undelivered or error

    def _complain(self, error: KafkaError) -> None:
        self.complaint = error
        if error.code() in UNREACHABLE:
            self._unreachable = error


def check_topic(settings: KafkaSettings, client_id: str, topic: str) -> None:
    """Make sure that the topic is there, without having it made.

    Raises:
        UserError: it is not, or this user may not see it.
        RetryableError: the broker cannot be reached.
    """
    admin = make_admin(settings, client_id)
    for tries_left in reversed(range(_LOOKS)):
        (answer,) = admin.describe_topics(TopicCollection([topic]), request_timeout=CONTACT_S).values()
        try:
            answer_of(admin, answer)
            return
        except KafkaException as raised:
            error = error_of(raised)
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            rights = "WRITE on the topic, and READ for writing exactly once,"
            raise topic_denied(f"looking for topic {topic!r}", rights, error, settings)
        if error.code() not in UNKNOWN_TOPIC:
            raise failure(f"looking for topic {topic!r}", error, settings)
        if tries_left:
            # One that was made a moment ago is not known to every broker yet.
            admin.poll(_LOOK_AGAIN_S)
    raise UserError(
        f"topic {topic!r} is not there at {settings.bootstrap}, and Penstock makes no topics by itself: create it with "
        "as many partitions as its readers need, or correct the name"
    )


def topic_denied(what: str, rights: str, error: KafkaError, settings: KafkaSettings) -> UserError:
    """Return the exception for a right to the topic that is missing."""
    return UserError(
        f"{what}: Kafka at {settings.bootstrap} denies it ({settings.redacted(error.str())}): grant {rights} to this "
        "user by an ACL"
    )


@contextmanager
def sending_explained(topic: str, settings: KafkaSettings) -> Iterator[None]:
    """Raise the `sending_failure` of a topic in place of an exception of librdkafka.

    Raises:
        PenstockError: there was one.
    """
    try:
        yield
    except KafkaException as raised:
        raise sending_failure(topic, error_of(raised), settings) from None


def sending_failure(topic: str, error: KafkaError, settings: KafkaSettings) -> PenstockError:
    """Return the exception for a message that could not be sent or delivered."""
    code, text = error.code(), settings.redacted(error.str())
    where = f"topic {topic!r} at {settings.bootstrap}"
    if code in _TOO_LARGE:
        return FatalError(
            f"{where} refuses a message as too large ({text}): raise max.message.bytes of the topic, then start the "
            "job again; nothing is lost"
        )
    if code == KafkaError.INVALID_TIMESTAMP:
        return FatalError(
            f"{where} refuses the event time of a message as its timestamp ({text}): raise message.timestamp.after."
            "max.ms or message.timestamp.before.max.ms of the topic, or write with timestamp=False"
        )
    if code == KafkaError.INVALID_RECORD:
        return FatalError(
            f"{where} refuses a message ({text}): a compacted topic takes only messages with a key, so write with key="
        )
    what = f"writing to topic {topic!r}"
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return topic_denied(what, "WRITE on the topic", error, settings)
    return failure(what, error, settings)
