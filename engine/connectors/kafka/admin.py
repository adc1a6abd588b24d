"""Requests to a cluster before anything flows: reachability, topics, and the permissions of this user.

Used by ``penstock dev kafka``, ``penstock doctor --kafka`` and the tests. Answers are plain values.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.engine.connectors.kafka.clients import ANSWER_S, UNKNOWN_TOPIC, error_of, make_admin
from penstock.engine.connectors.kafka.settings import KafkaSettings

CLIENT_ID = "penstock-admin"


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as this user sees it.

    ``problem`` is empty, ``missing``, ``denied`` or what the cluster says. ``allowed`` are the operations this user
    may do (``READ``, ``WRITE``, ...), None if the cluster does not tell.
    """

    name: str
    partitions: int = 0
    problem: str = ""
    allowed: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The answer of a cluster; ``problem`` is why it did not answer, empty if it did."""

    brokers: tuple[str, ...] = ()
    problem: str = ""
    topics: tuple[TopicView, ...] = ()


def is_ready(bootstrap: str, timeout_s: float) -> bool:
    """Return whether a broker answers within a time and serves topics; returns early if it says "not yet"."""
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.ms": 50}
    try:
        return bool(make_admin(KafkaSettings(quiet), CLIENT_ID).list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def look(settings: KafkaSettings, topics: Iterable[str] = (), timeout_s: float = ANSWER_S) -> ClusterView:
    """Ask a cluster who it is, and for each topic whether it is there and what this user may do with it.

    Raises:
        UserError: a setting is unknown or wrong, or a secret is not where it should be.
    """
    client = make_admin(settings, CLIENT_ID)
    try:
        cluster = client.list_topics(timeout=timeout_s)
    except KafkaException as raised:
        client.poll(0)
        return ClusterView(problem=(client.refusal or client.complaint or error_of(raised)).str())
    brokers = tuple(sorted(f"{broker.host}:{broker.port}" for broker in cluster.brokers.values()))
    return ClusterView(brokers, topics=tuple(_topics(client, list(dict.fromkeys(topics)), timeout_s)))


def create_topic(
    settings: KafkaSettings,
    name: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> None:
    """Create a topic with as many replicas as the cluster likes; ``config`` are settings of the topic.

    Raises:
        KafkaException: the cluster refuses, or does not answer in time.
    """
    client = make_admin(settings, CLIENT_ID)
    topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config or {}))
    for answer in client.create_topics([topic], operation_timeout=timeout_s, request_timeout=timeout_s).values():
        answer.result()


def delete_topics(settings: KafkaSettings, names: Iterable[str], timeout_s: float = 30.0) -> None:
    """Delete topics; those that are not there are no error.

    Raises:
        KafkaException: the cluster refuses, or does not answer in time.
    """
    wanted = list(names)
    if not wanted:
        return
    client = make_admin(settings, CLIENT_ID)
    for answer in client.delete_topics(wanted, operation_timeout=timeout_s, request_timeout=timeout_s).values():
        try:
            answer.result()
        except KafkaException as error:
            if error_of(error).code() not in UNKNOWN_TOPIC:
                raise


def _topics(client: AdminClient, names: list[str], timeout_s: float) -> Iterable[TopicView]:
    if not names:
        return
    answers = client.describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=timeout_s
    )
    for name in names:
        yield _topic(name, answers[name])


def _topic(name: str, answer: "Future[Any]") -> TopicView:
    try:
        described = answer.result()
    except KafkaException as raised:
        error = error_of(raised)
        if error.code() in UNKNOWN_TOPIC:
            return TopicView(name, problem="missing")
        is_denied = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        return TopicView(name, problem="denied" if is_denied else error.str())
    operations = described.authorized_operations
    allowed = None if operations is None else frozenset(operation.name for operation in operations)
    return TopicView(name, len(described.partitions), allowed=allowed)
