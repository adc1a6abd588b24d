"""The state shared by the copies of one Kafka source: clients, topics as last listed, the start and the end.

Made by `KafkaSource`; begins with the first reader and lets go of every client with the last. Partitions of one
source in one process are fetched by one consumer.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from penstock.engine.connectors.kafka.clients import LOGGER, Admin, make_admin
from penstock.engine.connectors.kafka.fetcher import Fetcher
from penstock.engine.connectors.kafka.queues import PartitionQueue
from penstock.engine.connectors.kafka.reader import KafkaPosition, KafkaReader, PartitionFeed, is_over
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.engine.connectors.kafka.run_bounds import RunBounds
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topic_places import EARLIEST, LATEST, TopicPlace, look_up, resolve
from penstock.engine.connectors.kafka.topics import (
    WATCH_S,
    Listing,
    Topic,
    Topics,
    TopicWatch,
    changed,
    partition_names,
    split_name,
)
from penstock.model.errors import PenstockError, RetryableError, UserError

DEFAULT_GROUP = "penstock"
"""The group of consumers whose user names none; they never join it."""


class Cluster:
    """The running side of a source. Methods may be called from any thread.

    Bounds belong to a run of the job: they stay as they were first seen, over its restarts too, until `begin`. They go
    along with a copy for another process, which makes clients and threads of its own.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Topics,
        start: TopicPlace,
        end: TopicPlace | None,
        watch_s: float = WATCH_S,
        run: RunBounds | None = None,
    ) -> None:
        """Connect to nothing yet."""
        self._settings, self._topics = settings, topics
        self._start, self._end = start, end
        self._watch_s = watch_s
        self._run = run or RunBounds()
        self._lock = threading.RLock()
        self._admin: Admin | None = None
        self._watch: TopicWatch | None = None
        self._listing: Listing = {}
        self._fetchers: list[Fetcher] = []
        self._open: set[KafkaReader] = set()
        self._ids: dict[str, str | None] = {}
        self._messages: set[str] = set()

    def begin(self) -> None:
        """Let starts and ends be asked for anew: another run of the job begins. Those of readers at work stay."""
        with self._lock:
            if not self._open:
                self._run = RunBounds()

    def agree(self) -> None:
        """Look up the partitions, starts and ends of this run, unless that is done, so that they go along with copies.

        Raises:
            UserError: a topic is not there.
            RetryableError: the cluster does not answer.
        """
        with self._lock:
            if self._run.agreed is None:
                names = self.partitions()
                for name in names:
                    self._start_of(name)
                    self._end_of(name)
                self._run.agreed = tuple(names)

    def release(self) -> None:
        """Let go of the client, unless readers are at work: the last one does."""
        with self._lock:
            if not self._open:
                self._admin = None

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            run = self._run.copy()
        return Cluster, (self._settings, self._topics, self._start, self._end, self._watch_s, run)

    def partitions(self) -> list[str]:
        """Name the partitions of all topics.

        Raises:
            UserError: a topic is not there.
            RetryableError: the cluster does not answer.
        """
        with self._lock:
            if self._run.agreed is not None:
                return list(self._run.agreed)
            listing = self._look() if self._watch is None else self._listing
            self._topics.check_there(listing, self._settings)
            return partition_names(listing)

    def partitions_since(self, known: Sequence[str]) -> list[str]:
        """Name partitions that are not ``known``; these begin at their first message.

        A bounded run has those that were there when its ends were looked up, and gets no others.
        """
        with self._lock:
            listing = self._look() if self._watch is None else self._listing
            names = set(known)
            new = [name for name in partition_names(listing) if name not in names]
            if self._run.ends:
                new = [name for name in new if name in self._run.ends]
            self._run.come_late(new)
            return new

    def partitions_after(self, known: Sequence[str]) -> list[str]:
        """Name partitions that a run did not know which stopped with those ``known``; as `partitions_since` else.

        Processes that deal partitions out must see the same: they find what came after they agreed while they run.
        """
        with self._lock:
            if self._run.agreed is None:
                return self.partitions_since(known)
            names = set(known)
            new = [name for name in self._run.agreed if name not in names]
            self._run.come_late(new)
            return new

    def open(
        self, partition: str, position: KafkaPosition | None, maker: RowMaker, end: int | None = None
    ) -> KafkaReader:
        """Start to fetch a partition, up to ``end`` (None: the run's).

        Raises:
            UserError: the topic is gone, or another one has its name, or its messages up to the position are not there.
            RetryableError: the cluster does not answer.
        """
        topic, number = split_name(partition)
        with self._lock:
            listing = self._listing or self._look()
            wrong = changed(topic, None if position is None else position.topic_id, listing, self._settings)
            if wrong is None and number >= listing[topic].partitions:
                wrong = UserError(
                    f"topic {topic!r} has {listing[topic].partitions} partitions, so {partition!r} is none"
                )
            if wrong is not None:
                raise wrong
            at = self._first(partition, listing[topic]) if position is None else position
            if end is None:
                end = self._end_of(partition)
                if position is not None and end is not None:
                    self._check_reached(partition, position)
            fetcher = self._fetcher(topic, number)
            queue = fetcher.attach(topic, number, at.offset)
            reader: KafkaReader

            def close() -> None:
                fetcher.detach(queue)
                self._closed(reader)

            def watch(wake: Callable[[], None]) -> None:
                queue.on_change = wake

            feed = PartitionFeed(
                take=lambda count, size: fetcher.queues.take(queue, count, size),
                reachable=lambda: fetcher.reachable,
                close=close,
                watch=watch,
                written=lambda: queue.written,
            )
            reader = KafkaReader(maker.fresh(), at, feed, end=end, say=self._say)
            self._ids[topic] = listing[topic].id
            self._open.add(reader)
            if self._watch is None:
                self._watch = TopicWatch(self._look_again, self._seen, self._failed, self._watch_s)
            return reader

    def _say(self, text: str) -> None:
        """Tell the user what one of the readers has noticed, once for all of them."""
        if text not in self._messages:
            self._messages.add(text)
            LOGGER.warning("%s: %s", self._topics.describe(), text)

    def commit(self, job: str, offsets: Mapping[str, int]) -> None:
        """Let monitoring see offsets, by partition, as those of the group; without waiting for whether it works.

        Nothing reads them back: where a job goes on is in its checkpoint (docs/design/kafka.md 1).
        """
        with self._lock:
            if self._admin is None or not offsets:
                return
            partitions = [TopicPartition(*split_name(name), offset) for name, offset in offsets.items()]
            group = ConsumerGroupTopicPartitions(self._settings.group or job, partitions)
            for answer in self._admin.alter_consumer_group_offsets([group]).values():
                answer.add_done_callback(_log_uncommitted)

    def _first(self, partition: str, topic: Topic) -> KafkaPosition:
        """Return where a partition begins."""
        return KafkaPosition(self._start_of(partition), 0, topic.id)

    def _start_of(self, partition: str) -> int:
        """Return the offset at which a partition begins; all of them are asked for at once."""
        if partition not in self._run.starts:
            unknown = [name for name in partition_names(self._listing) if name not in self._run.starts]
            late = [name for name in unknown if name in self._run.late]
            early = [name for name in unknown if name not in self._run.late]
            self._run.starts |= resolve(self._start, early, self._offsets, EARLIEST)
            self._run.starts |= resolve(TopicPlace(name=EARLIEST), late, self._offsets, EARLIEST)
        return self._run.starts[partition]

    def _end_of(self, partition: str) -> int | None:
        """Return where this run ends in a partition; all of them are asked for at once."""
        if self._end is not None and partition not in self._run.ends:
            unknown = [name for name in partition_names(self._listing) if name not in self._run.ends]
            self._run.ends |= resolve(self._end, unknown, self._offsets, LATEST)
        return self._run.ends.get(partition)

    def _check_reached(self, partition: str, position: KafkaPosition) -> None:
        """Refuse a position behind all that was ever written: a run that ends before it would read nothing for ever.

        Reading on notices that by itself; only partitions that seem to be over are asked about.
        """
        if not is_over(position.offset, self._run.ends[partition]):
            return
        # What a transaction holds back counts: an earlier run may have read it.
        place = {partition: TopicPlace(name=LATEST)}
        written = look_up(self._client(), self._settings, place, uncommitted=True)[partition]
        if position.offset > written:
            raise UserError(
                f"partition {partition!r} ends at offset {written}, but the job has read up to {position.offset}: the "
                "topic was cut off or created again since, so offsets of the old one mean nothing in it; start the job "
                "anew, without its checkpoint (restore='none', --restore none)"
            )

    def _offsets(self, places: Mapping[str, TopicPlace]) -> Mapping[str, int]:
        return look_up(self._client(), self._settings, places) if places else {}

    def _fetcher(self, topic: str, partition: int) -> Fetcher:
        for fetcher in self._fetchers:
            if fetcher.may_attach(topic, partition):
                return fetcher
        fetcher = Fetcher(self._settings, "penstock-source", self._settings.group or DEFAULT_GROUP)
        self._fetchers.append(fetcher)
        return fetcher

    def _client(self) -> Admin:
        if self._admin is None:
            self._admin = make_admin(self._settings, "penstock-source")
        return self._admin

    def _look(self) -> Listing:
        self._listing = self._answer_of(self._client())
        return self._listing

    def _look_again(self) -> Listing:
        """Look on the thread of the watch."""
        with self._lock:
            if self._watch is None:
                return self._listing
            admin = self._client()
        return self._answer_of(admin)

    def _answer_of(self, admin: Admin) -> Listing:
        """Return what a client is told; one that gets no answer may have lost all brokers, and is asked no more."""
        try:
            return self._topics.look(admin, self._settings)
        except RetryableError:
            with self._lock:
                if self._admin is admin:
                    self._admin = None
            raise

    def _seen(self, listing: Listing) -> None:
        """Take in what the watch saw; readers of a topic that is gone, or another one now, are told."""
        with self._lock:
            self._listing = listing
            wrong = {topic: changed(topic, topic_id, listing, self._settings) for topic, topic_id in self._ids.items()}
            fetchers = list(self._fetchers)
        for topic, failure in wrong.items():
            if failure is not None:
                for fetcher in fetchers:
                    fetcher.queues.fail(failure, partial(_is_of, topic))

    def _failed(self, failure: PenstockError) -> None:
        for fetcher in list(self._fetchers):
            fetcher.queues.fail(failure)

    def _closed(self, reader: KafkaReader) -> None:
        with self._lock:
            self._open.discard(reader)
            if self._open:
                return
            watch, self._watch = self._watch, None
            self._admin = None
            self._fetchers.clear()
            self._ids.clear()
            self._listing = {}
        if watch is not None:
            watch.close()


def _log_uncommitted(answer: "Future[Any]") -> None:
    try:
        partitions = answer.result().topic_partitions
    except KafkaException as error:
        LOGGER.info("offsets were not committed for monitoring: %s", error)
        return
    for item in partitions:
        if item.error is not None:
            LOGGER.info("offsets of %s were not committed for monitoring: %s", item.topic, item.error)


def _is_of(topic: str, queue: PartitionQueue) -> bool:
    return queue.topic == topic
