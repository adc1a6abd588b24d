"""The end of reading a partition: by position, never by message (docs/design/kafka.md 2).

The end of a topic may lie behind its last message: transactions leave markers and aborted rows, compaction takes rows
away. So a partition has ended once its position, which passes those, is at the end. Called by the source and reader.
"""

import numpy as np

from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.topic_places import LATEST, TopicPlace, Where, parse_place
from penstock.engine.connectors.kafka.topics import Topics


def parse_end(until: Where | None, topics: Topics) -> TopicPlace | None:
    """Read ``until``: ``latest`` (as seen at the start), a time, or offsets, none of which are read any more.

    Raises:
        OptionError: it is nothing of the kind.
    """
    return None if until is None else parse_place("until", until, topics, (LATEST,))


def before(messages: Messages, end: int | None) -> Messages:
    """Return the messages whose offset is below ``end``."""
    if end is None or messages.offsets[-1] < end:
        return messages
    return messages.slice(0, int(np.searchsorted(messages.offsets, end)))


def is_over(position: int, end: int | None) -> bool:
    """Return whether a partition that is read up to ``position`` has ended."""
    return end is not None and position >= end
