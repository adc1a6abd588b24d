"""A Kafka topic with Nexmark events, as ``penstock nexmark`` names it: ``kafka://HOST:PORT/TOPIC``.

Called by the ``nexmark`` command and its measured process; `fill` writes a topic, `Events` reads it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.benchmarks.nexmark.messages import TIMES, event_messages
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topic_places import EARLIEST, LATEST, TopicPlace, look_up
from penstock.engine.connectors.kafka.topics import parse_topics, partition_names
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.model.errors import FatalError, OptionError, UserError

SCHEME = "kafka://"
PARTITIONS = 4
CLIENT_ID = "penstock-nexmark"
ANSWER_S = 30.0
_STEP_EVENTS = 50_000
_FULL_S = 0.01


@dataclass(frozen=True, slots=True)
class EventTopic:
    """A topic of reference messages; what has an offset in ``until``, by partition, or a later one, is not read.

    ``settings`` are further ones of librdkafka, secrets by reference.
    """

    bootstrap: str
    topic: str
    until: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def kafka(self) -> Mapping[str, str]:
        """The settings of the topic's cluster, from which its clients are made."""
        return {**self.settings, "bootstrap.servers": self.bootstrap}

    @property
    def address(self) -> str:
        """The topic as the command line names it."""
        return f"{SCHEME}{self.bootstrap}/{self.topic}"

    def bounded(self) -> "EventTopic":
        """Return the topic up to its end as it is now.

        Raises:
            UserError: there is no such topic, a setting is wrong, or this user may not see the topic.
            RetryableError: the broker does not answer.
        """
        return replace(self, until=self._offsets(LATEST))

    def beginning(self, events: int) -> "EventTopic":
        """Return about the first events of a bounded topic."""
        share = -(-events // max(1, len(self.until)))
        first = self._offsets(EARLIEST)
        return replace(self, until={name: min(end, first[name] + share) for name, end in self.until.items()})

    def _offsets(self, name: str) -> dict[str, int]:
        from penstock.engine.connectors.kafka.clients import make_admin

        settings, topics = KafkaSettings(self.kafka), parse_topics(self.topic)
        admin = make_admin(settings, CLIENT_ID)
        listing = topics.look(admin, settings)
        topics.check_there(listing, settings)
        return look_up(admin, settings, dict.fromkeys(partition_names(listing), TopicPlace(name=name)))


def parse_address(text: str, settings: Iterable[str] = ()) -> EventTopic:
    """Read ``kafka://HOST:PORT/TOPIC`` and settings of librdkafka, each ``KEY=VALUE``.

    Raises:
        OptionError: one is not of the form.
    """
    from penstock.doctor.kafka import parse_setting

    bootstrap, _, topic = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or ":" not in bootstrap or not topic:
        raise OptionError(f"a topic is named such as {SCHEME}127.0.0.1:9092/events, not {text!r}")
    if parse_topics(topic).patterns:
        raise OptionError(f"{text!r}: one topic is needed here, not a pattern")
    return EventTopic(bootstrap, topic, settings=dict(map(parse_setting, settings)))


def fill(
    topic: EventTopic,
    config: NexmarkConfig,
    *,
    times: str = TIMES[0],
    tell: Callable[[int], None] = lambda events: None,
) -> None:
    """Create a topic of 4 partitions and write all events of the generator there, in order, by turns.

    So every partition has its events in their order. ``tell`` hears how many were handed over so far.

    Raises:
        UserError: the topic is there already, a setting is wrong, or this user may not make the topic.
        RetryableError: the broker cannot be reached.
        OptionError: the generator has no end.
    """
    from penstock.engine.connectors.kafka.admin import create_topic, look
    from penstock.engine.connectors.kafka.clients import explained

    if config.events is None:
        raise OptionError("an endless generator would fill a topic for ever; give --events")
    settings = KafkaSettings(topic.kafka)
    cluster = look(settings, [topic.topic])
    if cluster.problem:
        raise UserError(f"Kafka at {topic.bootstrap} does not answer ({cluster.problem}); check that it runs")
    problem = cluster.topics[0].problem
    if problem and problem != "missing":
        why = "Kafka denies it" if problem == "denied" else problem
        raise UserError(
            f"topic {topic.topic!r} at {topic.bootstrap} cannot be made ({why}): have CREATE, DESCRIBE, WRITE and READ "
            "on it allowed by ACLs"
        )
    if not problem:
        raise UserError(
            f"topic {topic.topic!r} is at {topic.bootstrap} already, and --fill makes its own: delete it, or name "
            "another one"
        )
    with explained(f"making topic {topic.topic!r}", settings):
        create_topic(settings, topic.topic, PARTITIONS)
    send(topic, _batches(config, config.events, times, tell))


def send(topic: EventTopic, batches: Iterable[Iterable[tuple[int, bytes]]]) -> None:
    """Write messages, each for a partition, into a topic that is there.

    Raises:
        FatalError: Kafka has not taken all of them.
    """
    from penstock.engine.connectors.kafka.clients import make_producer

    undelivered: list[object] = []
    producer = make_producer(KafkaSettings(topic.kafka), CLIENT_ID, lambda error: None, on_failure=undelivered.append)
    for batch in batches:
        for partition, message in batch:
            while True:
                try:
                    producer.produce(topic.topic, message, partition=partition)
                    break
                except BufferError:
                    producer.poll(_FULL_S)
        producer.poll(0)
        if undelivered:
            break
    unsent = producer.flush(ANSWER_S)
    if unsent or undelivered:
        why = undelivered[0] if undelivered else f"{unsent:,} messages were not acknowledged within {ANSWER_S:.0f} s"
        raise FatalError(f"filling {topic.address} failed ({why}); delete the topic and try again")


def _batches(
    config: NexmarkConfig, events: int, times: str, tell: Callable[[int], None]
) -> Iterator[list[tuple[int, bytes]]]:
    for first in range(0, events, _STEP_EVENTS):
        end = min(first + _STEP_EVENTS, events)
        messages = event_messages(config, first, end, times).to_pylist()
        yield [(place % PARTITIONS, message) for place, message in enumerate(messages, first)]
        tell(end)
