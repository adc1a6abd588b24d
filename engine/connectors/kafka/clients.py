"""Makes the clients of librdkafka, and says in one sentence what goes wrong with them. The one place that does either.

Called by the source and the sink; importing it loads confluent_kafka.
"""

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from penstock.engine.connectors.kafka.outages import Outage, outage_of
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.core.clock import SystemClock
from penstock.model.errors import FatalError, OptionError, PenstockError, RetryableError, UserError

LOGGER = logging.getLogger("penstock.kafka")
"""Where news of clients goes; librdkafka's own log lines go to its child ``librdkafka``, and unasked for nowhere."""

_LIBRARY = LOGGER.getChild("librdkafka")
_LIBRARY.addHandler(logging.NullHandler())

ANSWER_S = 10.0
"""How long a cluster is waited for before it counts as out of reach."""

CONTACT_S = 6.0
"""The same for what a job asks before it begins: who started it wants an answer."""

REFUSED_NS = 2_000_000_000
"""How long a cluster is waited for of which no broker can be connected to."""

_LOOK_S = 0.1
_T = TypeVar("_T")

UNREACHABLE = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._NODE_UPDATE,
    }
)
"""No broker answers."""

UNKNOWN_TOPIC = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""A topic or a partition is not there."""

PASSING = frozenset(
    {
        KafkaError.INVALID_MSG,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_CONTROLLER,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
        KafkaError.INVALID_FETCH_SESSION_EPOCH,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.ELECTION_NOT_NEEDED,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        106,  # FETCH_SESSION_TOPIC_ID_ERROR, for which librdkafka has no name.
    }
)
"""What brokers mean to pass, as Kafka's protocol has it; of errors of messages librdkafka does not say whether they do.

Topics that are not there are in `UNKNOWN_TOPIC`.
"""

LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL})
"""The cluster refuses this user, or is not the one it should be."""

_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}

OnError = Callable[[KafkaError], None]
"""Told of what concerns a whole client, from a thread that polls it."""


def make_consumer(settings: KafkaSettings, client_id: str, group: str, on_error: OnError) -> Consumer:
    """Make a consumer that commits nothing by itself; it connects in the background.

    Raises:
        UserError: a setting is unknown or wrong, or a secret is not where it should be.
    """
    return _client(Consumer, settings, {**settings.consumer(client_id, group), "error_cb": on_error})


def make_marker_reader(settings: KafkaSettings, client_id: str, group: str) -> Consumer:
    """Make a consumer that only asks what this group has committed, whatever group the user named.

    Raises:
        UserError: a setting is unknown or wrong, or a secret is not where it should be.
    """
    given = {**settings.consumer(client_id, group), "group.id": group, "isolation.level": "read_committed"}
    return _client(Consumer, settings, {**given, "error_cb": _note})


def make_producer(
    settings: KafkaSettings,
    client_id: str,
    on_error: OnError,
    transactional_id: str | None = None,
    on_failure: OnError | None = None,
) -> Producer:
    """Make an idempotent producer; it connects in the background. ``on_failure`` is told of undelivered messages.

    With it nobody is told of those that were delivered.

    Raises:
        UserError: a setting is unknown or wrong, or a secret is not where it should be.
    """
    given = {**settings.producer(client_id, transactional_id), "error_cb": on_error}
    if on_failure is not None:
        # A call for every message that was delivered would cost more than to send it.
        given |= {"delivery.report.only.error": True, "on_delivery": lambda error, message: on_failure(error)}
    return _client(Producer, settings, given)


class Admin(AdminClient):
    """An admin client that keeps in mind what the cluster said: its calls only say that no answer came.

    ``refusal``: it refused the login. ``complaint``: why a broker could not be connected to, the last one;
    ``unreachable``: why none can be, None since one answered.
    """

    refusal: KafkaError | None = None
    complaint: KafkaError | None = None
    unreachable: KafkaError | None = None
    outage: Outage

    def hear(self, error: KafkaError) -> None:
        """Take in what concerns the whole client."""
        if error.code() in LOGIN:
            self.refusal = error
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.unreachable = self.complaint or error
        elif error.code() in UNREACHABLE:
            self.complaint = error

    def note_answer(self) -> None:
        """Take in that a broker answered."""
        self.complaint = self.unreachable = None
        self.outage.back()


def make_admin(settings: KafkaSettings, client_id: str) -> Admin:
    """Make an admin client; it connects in the background.

    Raises:
        UserError: a setting is unknown or wrong, or a secret is not where it should be.
    """
    listening: list[weakref.ref[Admin]] = []

    def hear(error: KafkaError) -> None:
        for reference in listening:
            admin = reference()
            if admin is not None:
                admin.hear(error)
        _note(error)

    client = _client(Admin, settings, {**settings.admin(client_id), "error_cb": hear})
    client.outage = outage(settings)
    listening.append(weakref.ref(client))
    return client


def outage(settings: KafkaSettings) -> Outage:
    """Return what says that the cluster of these settings does not answer."""
    return outage_of(settings.bootstrap, LOGGER.warning)


def answer_of(admin: Admin, answer: "Future[_T]") -> _T:
    """Wait for what was asked; a cluster that refuses the login is not waited for, one that is away not for long.

    Raises:
        KafkaException: the cluster refuses, or does not answer in time.
    """
    clock = SystemClock()
    began_ns = clock.monotonic_ns()
    while True:
        try:
            result = answer.result(_LOOK_S)
            admin.note_answer()
            return result
        except TimeoutError:
            admin.poll(0)
        except KafkaException as raised:
            if error_of(raised).code() not in UNREACHABLE:
                admin.note_answer()
            raise
        if answer.done():
            continue
        if admin.refusal is not None:
            raise KafkaException(admin.refusal)
        admin.outage.lost()
        why = admin.unreachable
        if why is not None and clock.monotonic_ns() - began_ns >= REFUSED_NS:
            raise KafkaException(why)


def error_of(raised: KafkaException) -> KafkaError:
    """Return the error in an exception of librdkafka; one that has none is raised as it is."""
    error = raised.args[0] if raised.args else None
    if not isinstance(error, KafkaError):
        raise raised
    return error


@contextmanager
def explained(what: str, settings: KafkaSettings) -> Iterator[None]:
    """Raise the `failure` of doing ``what`` in place of an exception of librdkafka.

    Raises:
        PenstockError: there was one.
    """
    try:
        yield
    except KafkaException as raised:
        raise failure(what, error_of(raised), settings) from None


def failure(what: str, error: KafkaError, settings: KafkaSettings) -> PenstockError:
    """Return the exception for an error that was met while doing ``what``, such as ``reading topic 'bids'``."""
    code, text = error.code(), settings.redacted(error.str())
    at = f"Kafka at {settings.bootstrap}"
    if code in UNREACHABLE:
        # How many brokers are down says nothing to somebody who sees none of them.
        text = "no answer" if code == KafkaError._ALL_BROKERS_DOWN else text
        return RetryableError(
            f"{what}: {at} cannot be reached ({text}); check that the broker runs and that the address is right"
        )
    if code == KafkaError._SSL:
        return UserError(
            f"{what}: {at} is not trusted, or does not trust this client ({text}); check security.protocol, "
            "ssl.ca.location and the other ssl.*"
        )
    if code in LOGIN:
        return UserError(
            f"{what}: {at} refused the login ({text}); check sasl.username, sasl.password and sasl.mechanism"
        )
    if code in _DENIED:
        return UserError(f"{what}: {at} denies it ({text}); allow this user by an ACL on the {_DENIED[code]}")
    if code in UNKNOWN_TOPIC:
        return UserError(f"{what}: {at} has no such topic or partition ({text}); create it, or correct its name")
    if error.retriable() or code in PASSING:
        return RetryableError(f"{what}: {at} could not do it now ({error.name()}: {text})")
    return FatalError(f"{what}: {at} failed ({error.name()}: {text})")


def _client(kind: Callable[..., _T], settings: KafkaSettings, given: Mapping[str, Any]) -> _T:
    try:
        return kind(dict(given), logger=_LIBRARY)
    except (KafkaException, TypeError, ValueError) as raised:
        text = error_of(raised).str() if isinstance(raised, KafkaException) else str(raised)
        raise OptionError(f"librdkafka does not accept {settings!r}: {settings.redacted(text)}") from None


def _note(error: KafkaError) -> None:
    LOGGER.info("%s", error)
