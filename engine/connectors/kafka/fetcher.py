"""Fetches messages on a thread of its own into a bounded queue per partition: one consumer for many partitions.

Partitions are assigned at explicit offsets, never by a group (docs/design/kafka.md 1). Readers take from the queues
without waiting, so that what is taken is decoded while more is fetched.
"""

import threading
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from numpy.typing import NDArray

from penstock.engine.connectors.kafka import clients
from penstock.engine.connectors.kafka.lost_brokers import BrokerWatch, has_broker
from penstock.engine.connectors.kafka.messages import columns_of, stamps_of
from penstock.engine.connectors.kafka.queues import PartitionQueue, Queues
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.core.clock import SystemClock
from penstock.model.errors import BugError, PenstockError, UserError

QUEUE_BYTES = 24 << 20
"""How much all queues of a fetcher hold, about; librdkafka holds ``queued.max.messages.kbytes`` more."""

MOST_MESSAGES = 500
"""How many messages are taken from librdkafka at once: so few that they are gone before Python looks for garbage."""

WAIT_S = 0.05
"""How long the thread waits for messages, or for room, before it looks whether it is to stop."""

GATHER_S = 0.02
"""How long messages gather, at most, while readers have not taken those before them, if few come at a time."""

PROBE_S = 0.5
"""How long a broker that was gone is asked whether it is back."""

NOTE_NS = 500_000_000
"""How often it is noted how much there is of each partition."""

_FIRST_GUESS_BYTES = 1 << 16
_FEW = 4
"""A fetch that brings less than one in so many of what may come has caught up with the log."""

_TRIED_AGAIN = clients.UNREACHABLE | clients.UNKNOWN_TOPIC | clients.PASSING - {KafkaError.INVALID_MSG}
"""A batch that is damaged may stay so, which nobody would be told if it were read again for ever."""

Block = Sequence[Message]


class Fetcher:
    """One consumer and its thread. `attach` each partition once; after the last `detach` it is over.

    `attach` and `detach` may be called from any thread, as may the methods of `queues`.
    """

    def __init__(self, settings: KafkaSettings, client_id: str, group: str, queue_bytes: int = QUEUE_BYTES) -> None:
        """Make the consumer; the thread starts with the first partition.

        Raises:
            UserError: a setting is wrong.
        """
        self.queues = Queues(queue_bytes)
        self._settings = settings
        self._lock = threading.Lock()
        self._client = client_id, group
        self._assigned: dict[tuple[str, int], int] = {}
        # The thread polls most of the time, and confluent_kafka lets other calls wait for that, so it does all of them.
        self._to_assign: deque[TopicPartition] = deque()
        self._to_unassign: deque[TopicPartition] = deque()
        self._message_bytes = float(_FIRST_GUESS_BYTES)
        self._stopped = False
        self._caught_up = False
        self.reachable = True
        """True if a broker answers, as far as is known."""
        self._outage = clients.outage(settings)
        self._clock = SystemClock()
        self._note_ns = 0
        self._watch = BrokerWatch(self._clock.monotonic_ns())
        self._consumer: Consumer = self._make_consumer()
        self._thread = threading.Thread(target=self._run, name="penstock-kafka-fetch", daemon=True)

    def may_attach(self, topic: str, partition: int) -> bool:
        """Return whether the fetcher is not over and has never had this partition.

        What was fetched of it before might still come.
        """
        return not self._stopped and (topic, partition) not in self._assigned

    def attach(self, topic: str, partition: int, offset: int) -> PartitionQueue:
        """Fetch a partition from an offset on."""
        with self._lock:
            if not self.may_attach(topic, partition):
                raise BugError(f"partition {partition} of {topic!r} is attached a second time")
            self._assigned[topic, partition] = offset
            queue = self.queues.add(topic, partition)
            self._to_assign.append(TopicPartition(topic, partition, offset))
            if not self._thread.is_alive():
                self._thread.start()
        return queue

    def detach(self, queue: PartitionQueue) -> None:
        """Fetch no more of a partition and forget what was fetched; the last one closes the consumer."""
        with self._lock:
            if not self.queues.remove(queue):
                return
            if len(self.queues):
                self._to_unassign.append(TopicPartition(queue.topic, queue.partition))
                return
            self._stopped = True
        # A consumer that waits for a broker is left behind.
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        try:
            with clients.explained("reading", self._settings):
                while not self._stopped:
                    self._step()
        except PenstockError as error:
            self.queues.fail(error)
        except Exception as raised:
            self.queues.fail(BugError(f"reading from Kafka: {type(raised).__name__}: {raised}"))
        finally:
            self._consumer.close()

    def _step(self) -> None:
        self._assign()
        self._balance()
        self._note_written()
        if self._caught_up:
            # Each fetch takes the interpreter away from readers that have enough to do.
            self.queues.let_gather(GATHER_S)
        room = self.queues.room(WAIT_S)
        if room and not self._stopped:
            count = max(1, min(MOST_MESSAGES, int(room / self._message_bytes)))
            batch = self._fetch(count)
            self._caught_up = _FEW * len(batch) < count
            self._deal_out(batch)
        self._look_after_brokers()
        if not self.reachable:
            self._probe()

    def _make_consumer(self) -> Consumer:
        return clients.make_consumer(self._settings, *self._client, self._on_error)

    def _look_after_brokers(self) -> None:
        """Notice that no broker is there, as a client that has lost all of them does not say so."""
        if self.reachable and self._watch.is_due(now_ns := self._clock.monotonic_ns()):
            if has_broker(self._consumer, self._topic()):
                self._watch.hear(now_ns)
            else:
                self._watch.miss()
                self._outage.lost()
                self._reach(False)

    def _renew(self) -> None:
        """Go on with another client where this one is, which has lost all brokers for good."""
        with self._lock:
            self._to_unassign.clear()
            coming = [place for place in self._to_assign if self.queues.get(place.topic, place.partition) is not None]
            self._to_assign = deque(coming)
            names = {(place.topic, place.partition) for place in coming}
            queues = [queue for queue in self.queues.all() if (queue.topic, queue.partition) not in names]
        reached = self._consumer.position([TopicPartition(queue.topic, queue.partition) for queue in queues])
        self._consumer.close()
        self._watch = BrokerWatch(self._clock.monotonic_ns())
        self._consumer = self._make_consumer()
        for queue, place in zip(queues, reached, strict=True):
            # Of what came nothing is read again; nothing came yet where there is no position.
            name = queue.topic, queue.partition
            place.offset = self._assigned[name] = max(place.offset, self._assigned[name])
            self._consumer.incremental_assign([place])
            if queue.paused:
                self._consumer.pause([place])

    def _assign(self) -> None:
        while self._to_assign:
            self._consumer.incremental_assign([self._to_assign.popleft()])
        while self._to_unassign:
            self._consumer.incremental_unassign([self._to_unassign.popleft()])

    def _note_written(self) -> None:
        """Note how much there is of each partition, as the consumer has heard it with its fetches; asks no broker."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._note_ns:
            return
        self._note_ns = now_ns + NOTE_NS
        for queue in self.queues.all():
            offsets = self._consumer.get_watermark_offsets(TopicPartition(queue.topic, queue.partition), cached=True)
            if offsets is not None and offsets[1] >= 0:
                queue.written = max(offsets[1], queue.written or 0)

    def _balance(self) -> None:
        pause, resume = self.queues.balance()
        if pause:
            self._consumer.pause([TopicPartition(queue.topic, queue.partition) for queue in pause])
        if resume:
            self._consumer.resume([TopicPartition(queue.topic, queue.partition) for queue in resume])

    def _fetch(self, count: int) -> Block:
        """Wait for a message, and take what else is there by then."""
        first = self._consumer.poll(WAIT_S)
        if first is None:
            return ()
        return [first, *self._consumer.consume(count - 1, 0)] if count > 1 else [first]

    def _deal_out(self, batch: Block) -> None:
        if not batch:
            return
        self._answered()
        last = 0
        stamps = stamps_of(batch)
        if not stamps["kind"].all():
            for index, message in enumerate(batch):
                error = message.error()
                if error is not None:
                    self._put(batch[last:index], stamps[last:index])
                    last = index + 1
                    self._take_event(message, error)
        self._put(batch[last:] if last else batch, stamps[last:])

    def _put(self, batch: Block, stamps: NDArray[Any]) -> None:
        """Put messages without errors into the queues of their partitions."""
        if not batch:
            return
        size = 0
        for start, end in _runs(batch, one_topic=len(self.queues.topics) == 1):
            size += self.queues.put(columns_of(batch[start:end], stamps[start:end]))
        self._message_bytes += 0.5 * (size / len(batch) - self._message_bytes)

    def _take_event(self, message: Message, error: KafkaError) -> None:
        """Take in what concerns one partition: its end, or why it cannot be read."""
        queue = self.queues.get(message.topic(), message.partition())
        offset = message.offset()
        code = error.code()
        if queue is None or offset is None:
            if code != KafkaError._PARTITION_EOF:
                self._on_error(error)
        elif code == KafkaError._PARTITION_EOF:
            self.queues.meet_end(queue, offset)
        elif code in _TRIED_AGAIN or error.retriable():
            # The client tries again; a topic that is gone for good is noticed by whoever watches topics.
            clients.LOGGER.warning("%s: %s", queue.name, error)
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._fail(queue, self._out_of_range(queue, offset))
        else:
            self._fail(queue, clients.failure(f"reading {queue.name!r}", error, self._settings))

    def _fail(self, queue: PartitionQueue, failure: PenstockError) -> None:
        self.queues.fail(failure, lambda other: other is queue)

    def _out_of_range(self, queue: PartitionQueue, offset: int) -> UserError:
        low: int | None = None
        high: int | None = None
        try:
            bounds = self._consumer.get_watermark_offsets(
                TopicPartition(queue.topic, queue.partition), timeout=clients.ANSWER_S
            )
            low, high = bounds if bounds is not None else (None, None)
        except KafkaException as raised:
            clients.LOGGER.warning("%s: %s", queue.name, raised)
        if high is not None and offset > high:
            return UserError(
                f"partition {queue.name!r} ends at offset {high}, but reading is to go on at {offset}: the topic was "
                "cut off or created again since; start the job anew, without its checkpoint (restore='none')"
            )
        least = "" if low is None else f" (the first one there is {low})"
        return UserError(
            f"offset {offset} of partition {queue.name!r} is no longer there{least}: the topic's retention took away "
            "what was not read yet; keep messages longer, and start the job anew, without its checkpoint "
            "(restore='none'), from start='earliest'"
        )

    def _on_error(self, error: KafkaError) -> None:
        """Take in what concerns the whole client; librdkafka goes on trying, whatever it is."""
        clients.LOGGER.info("%s", error)
        self._watch.hear(self._clock.monotonic_ns())
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._outage.lost()
            self._reach(False)
        elif error.fatal() or error.code() in clients.LOGIN:
            self.queues.fail(clients.failure("reading", error, self._settings))

    def _probe(self) -> None:
        """Ask whether brokers are back: no news comes of that if nobody writes."""
        try:
            self._consumer.list_topics(self._topic(), timeout=PROBE_S)
        except KafkaException as raised:
            error = clients.error_of(raised)
            self._outage.lost(self._settings.redacted(error.str()))
            if error.code() == KafkaError._TRANSPORT and self._watch.is_due(self._clock.monotonic_ns()):
                self._watch.miss()
            if self._watch.is_lost:
                self._renew()
            return
        self._answered()

    def _topic(self) -> str:
        """Return one of the topics that are read."""
        return next(iter(self._assigned))[0]

    def _answered(self) -> None:
        self._watch.hear(self._clock.monotonic_ns())
        if not self.reachable:
            self._outage.back()
        self._reach(True)

    def _reach(self, reachable: bool) -> None:
        """Note whether a broker answers; readers are told of a change, as a partition out of reach is not idle."""
        if reachable != self.reachable:
            self.reachable = reachable
            self.queues.tell()


def _runs(batch: Block, *, one_topic: bool) -> list[tuple[int, int]]:
    """Cut messages into runs of one partition."""
    numbers = np.fromiter(map(Message.partition, batch), np.int32, len(batch))
    starts = numbers[1:] != numbers[:-1]
    if not one_topic:
        names = list(map(Message.topic, batch))
        starts |= np.fromiter((a != b for a, b in pairwise(names)), np.bool_, len(batch) - 1)
    cuts = [0, *(np.flatnonzero(starts) + 1).tolist(), len(batch)]
    return list(pairwise(cuts))
