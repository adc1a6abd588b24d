"""Places in a topic as users say them, for where reading starts and where it is over, and as offsets.

Called by the source, once for all partitions.
"""

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # exported at run time only

from penstock.engine.connectors.kafka.clients import CONTACT_S, Admin, answer_of, explained
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topics import Topics, partition_name, split_name
from penstock.model.errors import OptionError

EARLIEST, LATEST = "earliest", "latest"

Where: TypeAlias = str | datetime.datetime | Mapping[Any, int]
"""``earliest``, ``latest``, a time (also as ISO 8601 text), or offsets by partition."""


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """A place in a topic: a ``name`` (`EARLIEST`, `LATEST`), a time, or ``offsets`` by name of partition."""

    name: str | None = None
    time_ms: int | None = None
    offsets: Mapping[str, int] | None = None


LookUp: TypeAlias = Callable[[Mapping[str, TopicPlace]], Mapping[str, int]]
"""Returns the offsets of names and times, by partition."""


def parse_place(option: str, where: Where, topics: Topics, names: Sequence[str]) -> TopicPlace:
    """Read what a user gave as ``option``; ``names`` are allowed there.

    Offsets are by ``"topic/3"``, or by number of the partition if one topic is read.

    Raises:
        OptionError: it is nothing of the kind.
    """
    if isinstance(where, Mapping):
        return TopicPlace(offsets=_offsets(option, where, topics))
    if isinstance(where, str) and where in names:
        return TopicPlace(name=where)
    time = where
    if isinstance(where, str):
        try:
            time = datetime.datetime.fromisoformat(where)
        except ValueError:
            raise OptionError(
                f"{option}={where!r} must be {', '.join(map(repr, names))}, a time such as '2026-01-31T12:00:00Z', "
                "or offsets such as {'topic/0': 17}"
            ) from None
    if not isinstance(time, datetime.datetime):
        raise OptionError(f"{option} must be a name, a time or offsets by partition, not {where!r}")
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
    return TopicPlace(time_ms=int(zoned.timestamp() * 1_000))


def resolve(place: TopicPlace, partitions: Sequence[str], look_up: LookUp, otherwise: str) -> dict[str, int]:
    """Return the offset of a place in every partition; in those that its offsets do not name, that of ``otherwise``."""
    named = place.offsets or {}
    fallback = place if place.offsets is None else TopicPlace(name=otherwise)
    looked_up = look_up({name: fallback for name in partitions if name not in named})
    return {name: named[name] if name in named else looked_up[name] for name in partitions}


def look_up(
    admin: Admin, settings: KafkaSettings, places: Mapping[str, TopicPlace], *, uncommitted: bool = False
) -> dict[str, int]:
    """Ask the cluster for the offsets of names and times; a time that nothing was written after is the end.

    The end is that of what transactions have committed, if only that is read and ``uncommitted`` is not asked for.

    Raises:
        UserError: the cluster refuses, or a partition is not there.
        RetryableError: it does not answer.
    """
    committed_only = settings.committed_only and not uncommitted
    offsets = _listed(admin, settings, places, committed_only)
    beyond = {name: TopicPlace(name=LATEST) for name, offset in offsets.items() if offset < 0}
    return {**offsets, **_listed(admin, settings, beyond, committed_only)}


def _offsets(option: str, given: Mapping[Any, int], topics: Topics) -> dict[str, int]:
    offsets: dict[str, int] = {}
    for key, offset in given.items():
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise OptionError(f"{option}: the offset of {key!r} must be a whole number from 0 on, not {offset!r}")
        if isinstance(key, int) and len(topics.names) == 1 and not topics.patterns:
            offsets[partition_name(topics.names[0], key)] = offset
            continue
        if not isinstance(key, str) or "/" not in key:
            raise OptionError(f"{option}: partitions are named such as 'topic/0', not {key!r}")
        split_name(key)
        offsets[key] = offset
    return offsets


def _spec(place: TopicPlace) -> Any:
    specs: Any = OffsetSpec
    if place.time_ms is not None:
        return specs.for_timestamp(place.time_ms)
    return specs.latest() if place.name == LATEST else specs.earliest()


def _listed(
    admin: Admin, settings: KafkaSettings, places: Mapping[str, TopicPlace], committed_only: bool
) -> dict[str, int]:
    if not places:
        return {}
    level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
    specs = {TopicPartition(*split_name(name)): _spec(place) for name, place in places.items()}
    answers = admin.list_offsets(specs, isolation_level=level, request_timeout=CONTACT_S)
    offsets: dict[str, int] = {}
    for partition, answer in answers.items():
        name = partition_name(partition.topic, partition.partition)
        with explained(f"asking for offsets of {name!r}", settings):
            offsets[name] = answer_of(admin, answer).offset
    return offsets
