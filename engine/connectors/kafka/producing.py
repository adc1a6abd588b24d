"""Looks for the topic that is written to, and says in one sentence why messages could not be sent or delivered.

Called by whoever has a `Messenger`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from penstock.engine.connectors.kafka.clients import (
    CONTACT_S,
    UNKNOWN_TOPIC,
    answer_of,
    error_of,
    failure,
    make_admin,
)
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import FatalError, PenstockError, UserError

_LOOKS = 4
_LOOK_AGAIN_S = 0.5

_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)

REFUSED = frozenset({*_TOO_LARGE, KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD})
"""What a broker says of messages that it will never take."""


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
