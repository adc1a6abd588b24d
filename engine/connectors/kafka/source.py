"""Topics of Apache Kafka as a source: one partition of the job for each of theirs. Built by `penstock.dsl.kafka`."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engine.connectors.kafka.cluster import Cluster
from penstock.engine.connectors.kafka.reader import KafkaPosition
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topic_places import EARLIEST, LATEST, TopicPlace, Where, parse_place
from penstock.engine.connectors.kafka.topics import WATCH_S, parse_topics, split_name
from penstock.engine.connectors.positions import read_position
from penstock.model.connectors import Reader, Source

if TYPE_CHECKING:
    from penstock.model.expressions import Expr


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """The start of a job without a checkpoint and the end of a run; with ``until`` the source is bounded.

    Partitions that come later are found every ``discovery_us``; None: never.
    """

    start: Where = EARLIEST
    until: Where | None = None
    discovery_us: int | None = 30_000_000


EVERYTHING = ReadBounds()


class KafkaSource(Source):
    """Messages of topics as rows: the columns of the value, then of the key, then of ``metadata``.

    Partitions are ``topic/0`` and so on; each is read in order, with a watermark of its own. What cannot be decoded
    becomes a raw record with all that Kafka told of it. Nothing is read by a consumer group.
    """

    grows = True
    partitions_grow = True
    has_message_keys = True

    def __init__(
        self,
        topics: str | Sequence[str],
        settings: KafkaSettings,
        maker: RowMaker,
        bounds: ReadBounds = EVERYTHING,
    ) -> None:
        """Describe what is read; connects to nothing yet.

        Raises:
            OptionError: a topic or a bound is none.
        """
        self.topics, self.settings = parse_topics(topics), settings
        self.maker = maker
        """What makes rows of messages, of all fields or of those left after `restrict`."""
        self._bounds = bounds
        self.start = parse_place("start", bounds.start, self.topics, (EARLIEST, LATEST))
        """The place at which a job without a checkpoint begins to read."""
        end = None if bounds.until is None else parse_place("until", bounds.until, self.topics, (LATEST,))
        self.bounded = end is not None
        self.discovery_us = None if self.bounded else bounds.discovery_us
        watch_s = WATCH_S if self.discovery_us is None else min(WATCH_S, self.discovery_us / 1e6)
        # Restricted copies read through the same clients.
        self._cluster = Cluster(settings, self.topics, self.start, end, watch_s)

    @property
    def schema(self) -> pa.Schema:
        """The fields of the rows, or those left after `restrict`."""
        return self.maker.schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name the topics' partitions.

        Raises:
            UserError: a topic is not there.
            RetryableError: the cluster does not answer.
        """
        return self._cluster.partitions()

    def topic_partition(self, partition: str) -> tuple[str, int] | None:
        """Return topic and number."""
        return split_name(partition)

    def partitions_since(self, known: Sequence[str]) -> Sequence[str]:
        """Name partitions that topics got since, and those of topics that a pattern matches now."""
        return self._cluster.partitions_since(known)

    def partitions_after(self, positions: Mapping[str, Any]) -> Sequence[str]:
        """Name partitions that came since; among several processes, those that were there when the run began."""
        return self._cluster.partitions_after(list(positions))

    def fix_bounds(self) -> None:
        """Look up partitions, starts and ends of this run."""
        self._cluster.agree()

    def begin_run(self) -> None:
        """Look up anew where the run starts and ends."""
        self._cluster.begin()

    def first_run_only(self) -> str | None:
        """Name ``start``, unless that is where a job begins anyway."""
        return None if self.start == TopicPlace(name=EARLIEST) else f"start={self._bounds.start!r}"

    def open(self, partition: str, position: Any | None) -> Reader:
        """Start to fetch a partition, from its start or from where it was.

        Raises:
            UserError: the topic is gone or was created again, or a setting is wrong.
            RetryableError: the cluster does not answer.
        """
        start = None if position is None else read_position(self, position, KafkaPosition)
        return self._cluster.open(partition, start, self.maker)

    def committed(self, job: str, positions: Mapping[str, Any]) -> None:
        """Commit the offsets to the consumer group, which is named like the job unless the user named one."""
        offsets = {name: read_position(self, at, KafkaPosition).offset for name, at in positions.items()}
        self._cluster.commit(job, offsets)

    def release(self) -> None:
        """Let go of the client."""
        self._cluster.release()

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> "KafkaSource":
        """Decode only these columns; predicates are of no help here."""
        return self._changed(self.maker.restrict(columns))

    def with_time(self, column: str) -> "KafkaSource":
        """Make messages without a usable event time dead letters."""
        return self._changed(replace(self.maker, time=column if column in self.maker.columns else None))

    def reads(self, topic: str) -> bool:
        """Return whether a topic is among those that are read."""
        return self.topics.has(topic)

    def describe(self) -> str:
        """Name topics and cluster."""
        return f"Kafka {self.topics.describe()} at {self.settings.bootstrap}"

    def _changed(self, maker: RowMaker) -> "KafkaSource":
        changed = copy(self)
        changed.maker = maker
        return changed
