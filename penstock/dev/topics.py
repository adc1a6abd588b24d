"""The topics that ``penstock dev kafka --topic`` asks for, and their creation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.model.errors import OptionError, UserError

MOST_PARTITIONS = 1_000
"""More than a broker of a desk can hold."""


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """A topic that must exist."""

    name: str
    partitions: int = 1


def parse_topics(texts: Sequence[str]) -> list[TopicRequest]:
    """Read topics as the command line has them: ``orders`` or ``orders:3``, three partitions.

    Raises:
        OptionError: one is no such text, or a name comes twice.
    """
    requests = [_parse(text) for text in texts]
    names = [topic.name for topic in requests]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"--topic {twice} comes twice; give it once")
    return requests


def make_topics(bootstrap: str, requests: Sequence[TopicRequest], tell: Callable[[str], None]) -> None:
    """Create the topics that are not there yet.

    Raises:
        UserError: one is there with another number of partitions.
    """
    from penstock.engine.connectors.kafka.admin import create_topic, look
    from penstock.engine.connectors.kafka.settings import KafkaSettings

    settings = KafkaSettings(bootstrap)
    existing = {view.name: view.partitions for view in look(settings, [topic.name for topic in requests]).topics}
    for topic in requests:
        partitions = existing.get(topic.name, 0)
        if partitions == 0:
            create_topic(settings, topic.name, topic.partitions)
            tell(f"topic {topic.name} created, {_count(topic.partitions)}")
        elif partitions != topic.partitions:
            raise UserError(
                f"the topic {topic.name} is there with {_count(partitions)}, not {topic.partitions}; say --topic "
                f"{topic.name}:{partitions}, or choose another --dir"
            )


def _parse(text: str) -> TopicRequest:
    from penstock.engine.connectors.kafka.topics import check_name

    name, colon, number = text.partition(":")
    if not colon:
        return TopicRequest(check_name(name))
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MOST_PARTITIONS):
        raise OptionError(
            f"--topic {text}: write TOPIC or TOPIC:PARTITIONS, with 1 to {MOST_PARTITIONS} of them, as in orders:3"
        )
    return TopicRequest(check_name(name), int(number))


def _count(partitions: int) -> str:
    return f"{partitions} partition{'' if partitions == 1 else 's'}"
