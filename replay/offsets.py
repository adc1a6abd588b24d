"""Selection of offsets to replay: from a job's checkpoints, a time, the earliest, or as given; never up to "latest".

What a job has read is in its checkpoints, and what a topic has grown by since is nobody's answer yet
(docs/design/replay.md 2). Asks the cluster where partitions begin and end. Called by the commands.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.checkpoint.reader import Checkpoint
from penstock.engine.connectors.kafka import topic_places as kafka_places
from penstock.engine.connectors.kafka.reader import KafkaPosition
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.engine.connectors.kafka.topic_places import EARLIEST, LATEST, look_up, parse_place
from penstock.engine.connectors.kafka.topics import (
    Listing,
    Topics,
    changed,
    partition_name,
    partition_names,
    split_name,
)
from penstock.engine.connectors.positions import read_position
from penstock.engine.restore.source_positions import read_positions
from penstock.model.errors import OptionError, RetryableError, UserError
from penstock.replay.kafka_slices import OffsetRange, RowPosition, ranges_between, split

if TYPE_CHECKING:
    from penstock.engine.connectors.kafka.clients import Admin

CLIENT = "penstock-replay"

Partition = tuple[str, int]
"""A topic and the number of a partition."""

Where = str | datetime.datetime | Mapping[str, int] | Checkpoint
"""``earliest`` (a start only), a time, offsets by ``topic/partition``, or a checkpoint of the job."""

Kept = Mapping[Partition, Sequence[tuple[int, int]]]
"""What an archive has of partitions, or a stream has kept: (start, stop), ascending and apart."""

_TRIES, _RETRY_S = 5, 0.5
_START, _STOP = "the start of a replay", "the end of a replay"


@dataclass(frozen=True, slots=True)
class TopicState:
    """State of topics in a cluster: offsets ``low`` up to ``high`` of each partition.

    Behind ``high`` nothing is committed yet. Topics that were made anew under their names have other ids.
    """

    low: Mapping[Partition, int]
    high: Mapping[Partition, int]
    listing: Listing

    @property
    def ids(self) -> dict[str, str | None]:
        """The ids of the topics, as far as the cluster knows any."""
        return {name: topic.id for name, topic in self.listing.items()}


@dataclass(frozen=True, slots=True)
class OffsetSelection:
    """The ranges to read, in order, and the ids of the topics that are meant.

    Of partitions in ``only`` no other messages are read than those in its ranges.
    """

    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str | None]
    only: Kept = field(default_factory=dict)


def topic_state(settings: KafkaSettings, topics: Topics) -> TopicState:
    """Ask a cluster for topics; what it cannot say at once, such as while leaders are chosen, it is asked again.

    Raises:
        UserError: a topic is not there, or the cluster refuses.
        RetryableError: it does not answer.
    """
    from penstock.engine.connectors.kafka.clients import make_admin

    admin, pause = make_admin(settings, CLIENT), threading.Event()
    for _ in range(_TRIES - 1):
        with suppress(RetryableError):
            return _topic_state(admin, settings, topics)
        pause.wait(_RETRY_S)
    return _topic_state(admin, settings, topics)


def _topic_state(admin: Admin, settings: KafkaSettings, topics: Topics) -> TopicState:
    listing = topics.look(admin, settings)
    topics.check_there(listing, settings)
    names = partition_names(listing)
    ends = [
        look_up(admin, settings, {name: kafka_places.TopicPlace(name=end) for name in names})
        for end in (EARLIEST, LATEST)
    ]
    low, high = ({split_name(name): offset for name, offset in offsets.items()} for offsets in ends)
    return TopicState(low, high, listing)


def choose(
    source: KafkaSource, operator: str, *, start: Where | None = None, stop: Where, kept: Kept | None = None
) -> OffsetSelection:
    """Return what of a source to replay: from ``start`` up to, not including, ``stop``.

    Without ``start`` it is all that a job read which began without a checkpoint: from where the source begins, every
    message since, be it there or not. ``operator`` is the source's name in checkpoints. What ``kept`` has need not be
    in the topic. Partitions that are not in ``stop`` are not read.

    Raises:
        OptionError: one of them is nothing of the kind, or is not known.
        UserError: a topic is gone or another one, or messages are neither in it nor kept.
        RetryableError: the cluster does not answer.
    """
    state = topic_state(source.settings, source.topics)
    stops, topic_ids = _places(_STOP, source, operator, stop, state)
    starts, more_ids = _starts(source, operator, start, state, kept or {})
    ids = {**state.ids, **more_ids, **topic_ids}
    for topic, topic_id in ids.items():
        wrong = changed(topic, topic_id, state.listing, source.settings)
        if wrong is not None:
            raise wrong
    for key in stops:
        if key not in state.low:
            raise UserError(
                f"partition {partition_name(*key)!r}, where a replay is to end, is not there: check the topic"
            )
    # A partition that came later began at its first message.
    ranges = ranges_between({key: starts.get(key, RowPosition(0)) for key in stops}, stops)
    for item in ranges:
        check_there(item, state, (kept or {}).get((item.topic, item.partition), ()))
    return OffsetSelection(tuple(ranges), ids)


def check_there(item: OffsetRange, state: TopicState, archived: Sequence[tuple[int, int]] = ()) -> None:
    """Check that every message of a range is kept, or in its topic and committed.

    Raises:
        UserError: naming the offsets that are missing.
    """
    key = (item.topic, item.partition)
    for lacking in split(item, archived)[1]:
        if lacking.start.offset < state.low[key]:
            available_from = min(state.low[key], lacking.stop.offset)
            raise UserError(
                f"offsets {lacking.start.offset} to {available_from - 1} of partition {item.name!r} "
                "are no longer there: the topic's retention took them away; replay from an archive that has "
                "them, or begin later, such as at 'earliest'"
            )
        if lacking.stop > RowPosition(state.high[key]):
            raise UserError(
                f"partition {item.name!r} ends at offset {state.high[key]}, but is to be read up to "
                f"{lacking.stop.offset}: that is not written yet, or belongs to a transaction that is open"
            )


def checkpoint_places(source: KafkaSource, operator: str, checkpoint: Checkpoint) -> dict[Partition, KafkaPosition]:
    """Return where a source was when a checkpoint was taken, by partition.

    Raises:
        UserError: the checkpoint knows no such source, or another kind of source has this name in it.
    """
    by_operator = {item.operator: item.positions for item in checkpoint.operators()}
    if not by_operator.get(operator):
        names = ", ".join(repr(name) for name, positions in by_operator.items() if positions) or "none"
        raise OptionError(
            f"{checkpoint!r} has no source {operator!r}; its sources are {names}: replay the pipeline it was taken of"
        )
    positions = read_positions(operator, list(by_operator[operator]), by_operator[operator])
    return {split_name(name): read_position(source, item.at, KafkaPosition) for name, item in positions.items()}


def _starts(
    source: KafkaSource, operator: str, start: Where | None, state: TopicState, kept: Kept
) -> tuple[dict[Partition, RowPosition], dict[str, str | None]]:
    if start == EARLIEST:
        firsts = {key: [low, *(first for first, _ in kept.get(key, ()))] for key, low in state.low.items()}
        return {key: RowPosition(min(offsets)) for key, offsets in firsts.items()}, {}
    if start is not None:
        return _places(_START, source, operator, start, state)
    begin = source.start
    if begin.name == LATEST:
        raise OptionError(
            f"source {operator!r} began at the ends its topics had when the job began, which nobody knows any more: "
            "say where a replay begins, by a checkpoint, a time or offsets"
        )
    if begin.name == EARLIEST:
        return dict.fromkeys(state.low, RowPosition(0)), {}
    return _resolved(source, begin, state), {}


def _places(
    option: str, source: KafkaSource, operator: str, where: Where, state: TopicState | None
) -> tuple[dict[Partition, RowPosition], dict[str, str | None]]:
    """Return places by partition, and the ids of their topics if they are known."""
    if isinstance(where, Checkpoint):
        positions = checkpoint_places(source, operator, where)
        ids = {topic: position.topic_id for (topic, _), position in positions.items() if position.topic_id is not None}
        return {key: RowPosition(position.offset, position.rows) for key, position in positions.items()}, dict(ids)
    if where == LATEST:
        raise OptionError(
            f"{option} cannot be 'latest', which is another place every time: give a checkpoint, a time or offsets"
        )
    place = parse_place(option, where, source.topics, ())
    if place.offsets is not None:
        return {split_name(name): RowPosition(offset) for name, offset in place.offsets.items()}, {}
    if state is None:
        raise OptionError(
            f"{option} in an archive is a checkpoint or offsets: which offsets a time has, only Kafka knows"
        )
    return _resolved(source, place, state), {}


def _resolved(source: KafkaSource, place: kafka_places.TopicPlace, state: TopicState) -> dict[Partition, RowPosition]:
    """Return the offsets of a time in every partition, or those that are given, and 0 where none is."""
    if place.offsets is not None:
        chosen = {split_name(name): offset for name, offset in place.offsets.items()}
        return {key: RowPosition(chosen.get(key, 0)) for key in state.low}
    from penstock.engine.connectors.kafka.clients import make_admin

    settings = source.settings
    offsets = look_up(make_admin(settings, CLIENT), settings, {partition_name(*key): place for key in state.low})
    return {split_name(name): RowPosition(offset) for name, offset in offsets.items()}
