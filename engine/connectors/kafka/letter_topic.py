"""A topic as where dead letters go: at least once, safe before a checkpoint counts on it (docs/design/kafka.md 5).

Chosen by ``dead_letter_topic=`` of a source or ``dead_letters=`` of a run.
"""

import threading
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException

from penstock.engine.connectors.kafka.clients import error_of
from penstock.engine.connectors.kafka.letters import to_messages
from penstock.engine.connectors.kafka.messenger import Messenger
from penstock.engine.connectors.kafka.producing import check_topic, sending_failure
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topics import check_name
from penstock.model.dead_letters import DeadLetter, LetterTarget, LetterWriter
from penstock.model.errors import OptionError, PenstockError, RetryableError

ABORT_S = 2.0
"""How long a job that failed still tries to write its letters."""

_LARGEST_BYTES = 100_000_000
"""The most that librdkafka lets through unless told otherwise; the topic's own bound decides."""

_URL = "kafka://"


class LetterTopic(LetterTarget):
    """One topic of one cluster."""

    def __init__(self, topic: str, settings: KafkaSettings) -> None:
        """Nothing is opened yet.

        Raises:
            OptionError: this is no name of a topic.
        """
        self.topic = check_name(topic)
        self._settings = settings.with_defaults({"message.max.bytes": _LARGEST_BYTES})

    def open(self, job: str) -> LetterWriter:
        """Make a producer, and look whether the topic is there.

        Raises:
            UserError: it is not, or a setting is wrong.
            RetryableError: the broker cannot be reached.
        """
        client_id = f"penstock-{job}-dead-letters"
        try:
            check_topic(self._settings, client_id, self.topic)
        except PenstockError as error:
            raise _explained(self.topic, error) from None
        return TopicLetterWriter(self._settings, self.topic, client_id)

    def describe(self) -> str:
        """Name the topic."""
        return f"kafka {self.topic}"


class TopicLetterWriter(LetterWriter):
    """Sends letters at once; `flush` waits until the broker has all of them."""

    def __init__(self, settings: KafkaSettings, topic: str, client_id: str) -> None:
        """Make the producer.

        Raises:
            UserError: a setting is wrong.
        """
        self._settings = settings
        self._topic = topic
        self._messenger = Messenger(settings, topic, client_id)
        self._flushing = threading.Lock()
        self._given_up = False

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Hand letters to the producer; waits while its queue is full."""
        messages = to_messages(letters)
        self._try(lambda: self._messenger.put(messages))

    def flush(self) -> None:
        """Wait until all are delivered."""
        with self._flushing:
            if self._given_up:
                raise self._interrupted()
            self._try(lambda: self._messenger.flush(self._go_on))

    def close(self) -> None:
        """Deliver everything and end."""
        self.flush()
        self._messenger.close()

    def abort(self) -> None:
        """Try to deliver for a moment, and end."""
        self._given_up = True
        with self._flushing:
            if self._messenger.undelivered is None:
                self._messenger.producer.flush(ABORT_S)
            self._messenger.abandon()

    def _go_on(self) -> None:
        if self._given_up:
            raise self._interrupted()

    def _interrupted(self) -> RetryableError:
        return RetryableError(f"the job failed before its dead letters were in topic {self._topic!r}")

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except KafkaException as raised:
            error = error_of(raised)
            failure = sending_failure(self._topic, error, self._settings)
            if error.code() == KafkaError.INVALID_RECORD:
                failure = type(failure)(f"topic {self._topic!r} takes only messages with a key, as it is compacted")
            raise _explained(self._topic, failure) from None


def parse_target(where: str) -> LetterTopic:
    """Read ``kafka://HOST:PORT/TOPIC``.

    Raises:
        OptionError: it is something else.
    """
    address, _, topic = where.removeprefix(_URL).partition("/")
    if not where.startswith(_URL) or not address or "@" in address:
        shown = "that" if "@" in where else repr(where)
        raise OptionError(
            f"dead letters go to kafka://HOST:PORT/TOPIC, not {shown}; a cluster that wants a login needs "
            "dead_letter_topic(TOPIC, kafka={...})"
        )
    return LetterTopic(topic, KafkaSettings(address))


def _explained(topic: str, error: PenstockError) -> PenstockError:
    return type(error)(f"dead letters cannot be written to topic {topic!r}: {error}")
