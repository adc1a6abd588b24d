"""Queues of fetched messages, one per partition, all of them bounded together. Between fetcher and readers.

Only the lock is shared; which partitions are to be held up is decided here and done by the fetcher.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.engine.connectors.kafka.messages import Messages, joined
from penstock.engine.connectors.kafka.topics import partition_name
from penstock.model.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Taken:
    """Messages in order. ``reached`` is the offset behind them and what follows them that no reader sees, if known."""

    messages: Messages | None = None
    reached: int | None = None


@dataclass(slots=True)
class _Held:
    """Some messages in a row, or (``end``) the news that the partition's end was met there."""

    messages: Messages | None
    bytes: int
    end: int | None = None


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """The fetched messages of one partition; changed by `Queues` only."""

    topic: str
    partition: int
    held: deque[_Held] = field(default_factory=deque)
    bytes: int = 0
    failure: PenstockError | None = None
    paused: bool = False
    at_end: bool = False
    starved: bool = False
    """A reader found it empty, and not because the partition is read to its end."""
    written: int | None = None
    """The offset that the next message will get, as far as was heard; None: nobody has asked yet."""
    awaited: bool = False
    """A reader found nothing, and is to be told when that changes."""
    on_change: Callable[[], None] = lambda: None
    """Tells the reader; called by whichever thread brings something, once after each time that there was nothing."""

    @property
    def name(self) -> str:
        """The partition's name."""
        return partition_name(self.topic, self.partition)


class Queues:
    """The queues of one fetcher. Every method may be called from any thread."""

    def __init__(self, most_bytes: int) -> None:
        """Hold about ``most_bytes`` in all; more, up to as much again, while a partition starves beside full ones."""
        self._most_bytes = most_bytes
        self._changed = threading.Condition()
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self.bytes = 0
        """What is held now."""
        self._awaited_bytes = -1
        """The fetcher waits until no more than this is held; -1: it does not wait."""

    def __len__(self) -> int:
        return len(self._queues)

    def all(self) -> list[PartitionQueue]:
        """Return every queue."""
        with self._changed:
            return list(self._queues.values())

    @property
    def topics(self) -> frozenset[str]:
        """The topics of the partitions."""
        with self._changed:
            return frozenset(topic for topic, _ in self._queues)

    def add(self, topic: str, partition: int) -> PartitionQueue:
        """Begin with a partition."""
        queue = PartitionQueue(topic, partition)
        with self._changed:
            self._queues[topic, partition] = queue
        return queue

    def remove(self, queue: PartitionQueue) -> bool:
        """Forget a partition and what was fetched of it; return whether it was there."""
        with self._changed:
            if self._queues.pop((queue.topic, queue.partition), None) is None:
                return False
            self.bytes -= queue.bytes
            queue.held.clear()
            queue.bytes = 0
            self._changed.notify_all()
        return True

    def get(self, topic: str | None, partition: int | None) -> PartitionQueue | None:
        """Return the queue of a partition, if it is there."""
        with self._changed:
            return self._queues.get((topic or "", -1 if partition is None else partition))

    def put(self, messages: Messages) -> int:
        """Append messages and return their bytes; those of a partition that is not there any more are dropped."""
        size = messages.bytes
        with self._changed:
            queue = self._queues.get((messages.topic, messages.partition))
            if queue is None:
                return size
            queue.held.append(_Held(messages, size))
            queue.bytes += size
            queue.at_end = queue.starved = False
            if queue.written is not None:
                # What has come is there, also before anybody asks anew how much there is.
                queue.written = max(queue.written, int(messages.offsets[-1]) + 1)
            self.bytes += size
        self._tell([queue])
        return size

    def meet_end(self, queue: PartitionQueue, offset: int) -> None:
        """Note that nothing readable follows before ``offset``, and nothing at all behind it for now."""
        with self._changed:
            queue.held.append(_Held(None, 0, end=offset))
            queue.at_end, queue.starved = True, False
        self._tell([queue])

    def take(self, queue: PartitionQueue, count: int, size: int) -> Taken:
        """Take up to ``count`` messages of about ``size`` bytes in all, those that are there.

        Raises:
            PenstockError: the partition cannot be read any further, and all before that was taken.
        """
        parts: list[Messages] = []
        reached: int | None = None
        with self._changed:
            while queue.held and count > 0 and size > 0:
                held = queue.held[0]
                if held.messages is None:
                    reached = held.end
                    queue.held.popleft()
                    continue
                reached = None
                number = min(count, max(1, size * len(held.messages) // held.bytes))
                part, part_bytes = held.messages, held.bytes
                if number < len(part):
                    part, part_bytes = part.slice(0, number), held.bytes * number // len(part)
                    held.messages, held.bytes = held.messages.slice(number, len(held.messages)), held.bytes - part_bytes
                else:
                    queue.held.popleft()
                parts.append(part)
                count -= len(part)
                size -= part_bytes
                queue.bytes -= part_bytes
                self.bytes -= part_bytes
            if not parts and reached is None:
                if queue.failure is not None:
                    raise queue.failure
                queue.starved = not queue.at_end
            queue.awaited = not parts
            if queue.starved or self.bytes <= self._awaited_bytes:
                self._changed.notify_all()
        return Taken(joined(parts) if parts else None, reached)

    def fail(self, failure: PenstockError, which: Callable[[PartitionQueue], bool] = lambda queue: True) -> None:
        """Let the readers of some partitions raise this once they have taken what is there; the first one counts."""
        with self._changed:
            for queue in self._queues.values():
                if queue.failure is None and which(queue):
                    queue.failure = failure
            self._changed.notify_all()
        self.tell()

    def tell(self) -> None:
        """Let the readers that found nothing look again."""
        with self._changed:
            queues = list(self._queues.values())
        self._tell(queues)

    def room(self, wait_s: float) -> int:
        """Return how many bytes may be fetched, after waiting for some room; 0: none yet."""
        with self._changed:
            room = self._most_bytes - self.bytes
            if room > 0 or any(queue.starved for queue in self._queues.values()):
                return max(room, self._most_bytes >> 4)
            self._wait(self._most_bytes - 1, wait_s)
            return 0

    def let_gather(self, wait_s: float) -> None:
        """Wait until all that is held was taken, or a reader found nothing that may come, or so long.

        Readers that have enough lose nothing by it, and what comes meanwhile is fetched together.
        """
        with self._changed:
            if self.bytes and not any(queue.starved for queue in self._queues.values()):
                self._wait(0, wait_s)

    def _wait(self, awaited_bytes: int, wait_s: float) -> None:
        """Wait until no more than ``awaited_bytes`` are held, or for any change but that of bytes."""
        self._awaited_bytes = awaited_bytes
        self._changed.wait(wait_s)
        self._awaited_bytes = -1

    def balance(self) -> tuple[list[PartitionQueue], list[PartitionQueue]]:
        """Return the partitions to hold up, which fill the queues while others starve, and those to let go on again.

        What librdkafka had fetched of a partition that is held up it fetches again, so it is left to when it must be.
        """
        with self._changed:
            share = self._most_bytes // max(1, len(self._queues))
            queues = list(self._queues.values())
            full = self.bytes >= self._most_bytes and any(queue.starved for queue in queues)
            pause = [queue for queue in queues if full and queue.bytes > share and not queue.paused]
            resume = [queue for queue in queues if queue.paused and queue.bytes <= share >> 1]
            for queue in pause:
                queue.paused = True
            for queue in resume:
                queue.paused = False
        return pause, resume

    def _tell(self, queues: Iterable[PartitionQueue]) -> None:
        for queue in queues:
            if queue.awaited:
                queue.awaited = False
                queue.on_change()
