"""Topics with their partitions and ids: listed from the cluster, and watched while reading.

A topic that is deleted, or made anew under its name, is told by its id; clusters that know none give None.
"""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicCollection

from penstock.engine.connectors.kafka.clients import (
    CONTACT_S,
    UNKNOWN_TOPIC,
    Admin,
    answer_of,
    error_of,
    explained,
    failure,
)
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import OptionError, PenstockError, RetryableError, UserError

WATCH_S = 10.0
"""How often topics are looked at if nothing else is asked for."""

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster tells of it."""

    name: str
    partitions: int
    id: str | None


Listing = Mapping[str, Topic]
"""The topics that are there, by name."""


@dataclass(frozen=True, slots=True)
class Topics:
    """A selection of topics: by name, and patterns, which begin with ``^`` and match from there."""

    names: tuple[str, ...]
    patterns: tuple[str, ...]

    def look(self, admin: Admin, settings: KafkaSettings) -> Listing:
        """Ask the cluster; topics that are not there are left out.

        Raises:
            UserError: the cluster refuses.
            RetryableError: it does not answer.
        """
        names = [*self.names, *self._matching(admin, settings)]
        return _described(admin, list(dict.fromkeys(names)), settings)

    def check_there(self, listing: Listing, settings: KafkaSettings) -> None:
        """Raise `UserError` for a topic that was named and is not there."""
        missing = [name for name in self.names if name not in listing]
        if missing:
            raise UserError(
                f"Kafka at {settings.bootstrap} has no topic {', '.join(map(repr, missing))}: create it, or correct "
                "its name"
            )

    def has(self, topic: str) -> bool:
        """Return whether a topic of this name is among them."""
        return topic in self.names or any(re.match(item, topic) for item in self.patterns)

    def describe(self) -> str:
        """Name them."""
        return ", ".join((*self.names, *self.patterns))

    def _matching(self, admin: Admin, settings: KafkaSettings) -> list[str]:
        if not self.patterns:
            return []
        with explained("listing topics", settings):
            topics = admin.list_topics(timeout=CONTACT_S).topics
        return sorted(
            name for name in topics if not name.startswith("__") and any(re.match(item, name) for item in self.patterns)
        )


def parse_topics(topics: str | Sequence[str]) -> Topics:
    """Read what a user gave.

    Raises:
        OptionError: it is no name of a topic, or no regular expression.
    """
    wanted = [topics] if isinstance(topics, str) else list(topics)
    if not wanted:
        raise OptionError("read_kafka needs a topic, several, or a pattern such as '^bids-.*'")
    for item in wanted:
        if not isinstance(item, str):
            raise OptionError(f"{item!r} is no name of a topic")
        if item.startswith("^"):
            try:
                re.compile(item)
            except re.error as error:
                raise OptionError(f"the topic pattern {item!r} is no regular expression: {error}") from None
        else:
            check_name(item, "; a pattern begins with '^'")
    names = tuple(dict.fromkeys(item for item in wanted if not item.startswith("^")))
    return Topics(names, tuple(item for item in wanted if item.startswith("^")))


def check_name(topic: str, hint: str = "") -> str:
    """Return the name of a topic.

    Raises:
        OptionError: it cannot be one.
    """
    if not isinstance(topic, str) or not _NAME.fullmatch(topic) or topic in (".", ".."):
        raise OptionError(f"{topic!r} is no name of a topic: letters, digits, '.', '_' and '-'{hint}")
    return topic


def partition_name(topic: str, partition: int) -> str:
    """Return the name under which a partition is known to the job."""
    return f"{topic}/{partition}"


def partition_names(listing: Listing) -> list[str]:
    """Return the names of all partitions of some topics."""
    return [partition_name(topic.name, number) for topic in listing.values() for number in range(topic.partitions)]


def split_name(name: str) -> tuple[str, int]:
    """Return topic and partition of a name.

    Raises:
        UserError: it is no such name.
    """
    topic, _, number = name.rpartition("/")
    if not topic or not number.isdigit():
        raise UserError(f"{name!r} is no partition such as 'topic/0': the checkpoint is of another source")
    return topic, int(number)


def changed(topic: str, topic_id: str | None, listing: Listing, settings: KafkaSettings) -> UserError | None:
    """Return what is wrong with a topic that was known under an id: it is gone, or another one has its name."""
    now = listing.get(topic)
    if now is None:
        return UserError(
            f"topic {topic!r} is no longer at {settings.bootstrap}: it was deleted while a job read it; leave it out, "
            "or start the job anew once it is there again"
        )
    if topic_id is not None and now.id is not None and topic_id != now.id:
        return UserError(
            f"topic {topic!r} at {settings.bootstrap} was deleted and created again (its id was {topic_id}, it is "
            f"{now.id}), so offsets of the old one mean nothing in it: start the job anew, without its checkpoint "
            "(restore='none', --restore none)"
        )
    return None


class TopicWatch:
    """Lists topics again and again, on a thread of its own, until it is closed."""

    def __init__(
        self,
        look: Callable[[], Listing],
        on_listing: Callable[[Listing], None],
        on_failure: Callable[[PenstockError], None],
        every_s: float,
    ) -> None:
        """Look from now on; a cluster that does not answer is asked again."""
        self._look, self._on_listing, self._on_failure = look, on_listing, on_failure
        self._every_s = every_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-kafka-topics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking; does not wait for an answer that is under way."""
        self._closed.set()
        self._thread.join(timeout=0.5)

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            try:
                listing = self._look()
            except RetryableError:
                continue
            except PenstockError as error:
                self._on_failure(error)
                return
            if not self._closed.is_set():
                self._on_listing(listing)


def _described(admin: Admin, names: Sequence[str], settings: KafkaSettings) -> dict[str, Topic]:
    listing: dict[str, Topic] = {}
    if not names:
        return listing
    answers = admin.describe_topics(TopicCollection(list(names)), request_timeout=CONTACT_S)
    for name in names:
        try:
            topic = answer_of(admin, answers[name])
        except KafkaException as raised:
            error = error_of(raised)
            if error.code() in UNKNOWN_TOPIC:
                continue
            raise failure(f"looking at topic {name!r}", error, settings) from None
        topic_id = str(topic.topic_id)
        listing[name] = Topic(name, len(topic.partitions), None if topic_id in ("", _NO_ID) else topic_id)
    return listing
