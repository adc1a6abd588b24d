"""Watches the checkpoints of a job from outside: what each one costs the worker loop. Called by `stall`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from penstock.engine.checkpoint import events as ev
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.core.elements import Barrier
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.worker import Worker
from penstock.engine.paging import bucket_writing, images_cut, pages_cut
from penstock.engine.paging.backlog import Backlog
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.state.checkpoints.repository import CheckpointRepository


@dataclass
class Seen:
    """One checkpoint: times in ns, sizes in bytes.

    ``blocked_ns``: the longest time in one go that the loop spent on a barrier. ``gap_ns``: the longest in which no
    batch was read, worked off or written. ``held_ns``: how long a paged operator took no input. ``turn_ns``: the
    longest turn of the loop. Those of ``cpu`` are the thread's own time. Of the ``memory_bytes`` that state took at the
    barrier, ``unstored_bytes`` had to be stored; ``dirtied_bytes`` are those of all buckets stored since the last one.
    """

    epoch: int
    began_ns: int
    ended_ns: int = 0
    blocked_ns: int = 0
    gap_ns: int = 0
    held_ns: int = 0
    turn_ns: int = 0
    turn_cpu_ns: int = 0
    blocked_cpu_ns: int = 0
    memory_bytes: int = 0
    unstored_bytes: int = 0
    dirtied_bytes: int = 0
    uploaded_bytes: int = 0


@dataclass
class Watch:
    """Observations so far; times come from one thread, the worker loop's, but for what is written."""

    seen: list[Seen] = field(default_factory=list)
    idle_turn_ns: int = 0
    """The longest turn of the loop while no checkpoint was under way."""
    _current: Seen | None = None
    _stored: dict[int, int] = field(default_factory=dict)
    _last_ns: int = 0
    _held_since_ns: int | None = None

    def row(self) -> None:
        """Rows got through."""
        now_ns = time.monotonic_ns()
        if self._current is not None:
            self._current.gap_ns = max(self._current.gap_ns, now_ns - max(self._last_ns, 0))
        self._last_ns = now_ns

    def begins(self, epoch: int) -> None:
        """Barriers are about to be sent."""
        self._current = Seen(epoch, time.monotonic_ns())

    def ends(self) -> None:
        """The checkpoint under way is complete, or given up."""
        if self._current is not None:
            self.row()
            self._current.dirtied_bytes, self._stored = sum(self._stored.values()), {}
            self._current.ended_ns = time.monotonic_ns()
            self.seen.append(self._current)
            self._current = None

    def stored(self, low: int, size: int) -> None:
        """A bucket that had changed was stored: again, perhaps."""
        self._stored[low] = size

    def frozen(self, memory_bytes: int, unstored_bytes: int) -> None:
        """An operator was cut."""
        if self._current is not None:
            self._current.memory_bytes += memory_bytes
            self._current.unstored_bytes += unstored_bytes

    def uploaded(self, count: int) -> None:
        """So many bytes were brought to the repository."""
        if self._current is not None:
            self._current.uploaded_bytes += count

    def spent_on_barrier(self, spent_ns: int, cpu_ns: int) -> None:
        """The loop was busy with a barrier for so long, in one go."""
        if self._current is not None:
            self._current.blocked_ns = max(self._current.blocked_ns, spent_ns)
            self._current.blocked_cpu_ns = max(self._current.blocked_cpu_ns, cpu_ns)

    def turned(self, spent_ns: int, cpu_ns: int) -> None:
        """One turn of the loop took so long."""
        if self._current is not None:
            self._current.turn_ns = max(self._current.turn_ns, spent_ns)
            self._current.turn_cpu_ns = max(self._current.turn_cpu_ns, cpu_ns)
        else:
            self.idle_turn_ns = max(self.idle_turn_ns, spent_ns)

    def room(self, there_is: bool) -> None:
        """A paged operator was asked for room; there is none as long as too much waits for a checkpoint."""
        now_ns = time.monotonic_ns()
        if not there_is and self._held_since_ns is None:
            self._held_since_ns = now_ns
        elif there_is and self._held_since_ns is not None:
            if self._current is not None:
                self._current.held_ns += now_ns - self._held_since_ns
            self._held_since_ns = None


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Watch every job that runs meanwhile in this process."""
    encode, push, step = bucket_writing.encode_bucket, Instance._push, Worker.step
    encode_images = bucket_writing.encode_images
    room, inject, publish = PagedOperator.has_room, CheckpointSession._inject, CheckpointRepository.publish
    freeze = BucketStores.freeze
    on, work_off = CheckpointSession._on, Backlog._work_off

    def encoded(bucket: Bucket, notes: Any) -> Any:
        encoded_bucket = encode(bucket, notes)
        watch.stored(bucket.span.low, bucket.paged_bytes)
        return encoded_bucket

    def imaged(bucket: Bucket) -> Any:
        kept = encode_images(bucket)
        watch.stored(bucket.span.low, kept.bytes)
        return kept

    def froze(stores: BucketStores, *given: Any) -> Any:
        cut = freeze(stores, *given)
        watch.frozen(stores.held_bytes(), cut.frozen_bytes())
        return cut

    def pushed(instance: Instance, port: int, element: Any) -> Iterator[Any]:
        pushing = push(instance, port, element)
        if not isinstance(element, Barrier):
            yield from pushing
            return
        while True:
            began_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
            room = next(pushing, None)
            watch.spent_on_barrier(time.monotonic_ns() - began_ns, time.thread_time_ns() - cpu_ns)
            if room is None:
                return
            yield room

    def stepped(worker: Worker) -> Any:
        began_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        outcome = step(worker)
        watch.turned(time.monotonic_ns() - began_ns, time.thread_time_ns() - cpu_ns)
        return outcome

    def room_requested(operator: PagedOperator) -> bool:
        there_is = room(operator)
        watch.room(there_is or not operator._stores.writing_out())
        return there_is

    def injected(session: CheckpointSession, command: Any) -> None:
        watch.begins(command.epoch)
        inject(session, command)

    def published(repository: CheckpointRepository, manifest: Any) -> Any:
        traffic = publish(repository, manifest)
        watch.uploaded(traffic.uploaded_bytes)
        return traffic

    def happened(session: CheckpointSession, event: Any) -> None:
        if isinstance(event, ev.Published | ev.PublishFailed | ev.UploadFailed):
            watch.ends()
        on(session, event)

    def worked_off(backlog: Backlog, *given: Any) -> Any:
        yield from work_off(backlog, *given)
        watch.row()

    with (
        patch.object(pages_cut, "encode_bucket", encoded),
        patch.object(images_cut, "encode_images", imaged),
        patch.object(bucket_writing, "encode_bucket", encoded),
        patch.object(BucketStores, "freeze", froze),
        patch.object(Instance, "_push", pushed),
        patch.object(Worker, "step", stepped),
        patch.object(PagedOperator, "has_room", room_requested),
        patch.object(Backlog, "_work_off", worked_off),
        patch.object(CheckpointSession, "_inject", injected),
        patch.object(CheckpointSession, "_on", happened),
        patch.object(CheckpointRepository, "publish", published),
    ):
        yield
