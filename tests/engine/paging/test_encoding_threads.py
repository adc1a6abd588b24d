"""Buckets of a checkpoint are encoded by its thread and by the worker loop at once, each by one of them."""

import queue
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.frozen_buckets import FrozenBuckets, Keeping
from penstock.engine.paging.options import PagingOptions
from tests.engine.paging.counting import paged, spread


def test_the_loop_encodes_a_bucket_while_the_thread_encodes_another() -> None:
    stores, keeping, frozen, thread = _frozen()
    first = keeping.begun.get(timeout=60)
    others = [bucket for bucket in stores.buckets if bucket is not first]
    assert not frozen.may_thaw(first, 1e9) and not frozen.thaw(first)
    assert all(frozen.may_thaw(bucket, 1e9) and frozen.thaw(bucket) for bucket in others)
    assert frozen.any_frozen()
    keeping.goes_on.set()
    thread.join(60)
    assert not thread.is_alive() and not frozen.any_frozen()
    assert sorted(map(id, keeping.kept)) == sorted(map(id, stores.buckets)), "each once"
    stores.release(frozen)


def test_a_bucket_has_no_room_that_another_is_being_encoded_into() -> None:
    first, second = (bucket for bucket in spread(paged(PagingOptions(None, 8_000, 4_000))).buckets[:2])
    room = max(first.bytes, second.bytes)
    keeping = _Halting()
    frozen = FrozenBuckets([first, second], keeping, lambda needed: needed <= room, lambda: None)
    thread = threading.Thread(target=frozen.write)
    thread.start()
    keeping.begun.get(timeout=60)
    assert not frozen.may_thaw(second, room) and not frozen.thaw(second)
    assert frozen.may_thaw(second, first.bytes + second.bytes)
    keeping.goes_on.set()
    thread.join(60)
    assert frozen.may_thaw(second, 0) and frozen.thaw(second)


def test_a_release_waits_for_the_bucket_that_is_being_encoded() -> None:
    stores, keeping, frozen, thread = _frozen()
    keeping.begun.get(timeout=60)
    releasing = threading.Thread(target=frozen.release)
    releasing.start()
    releasing.join(0.1)
    assert releasing.is_alive() and frozen.any_frozen()
    keeping.goes_on.set()
    for each in (releasing, thread):
        each.join(60)
        assert not each.is_alive()
    assert not frozen.any_frozen() and frozen.image_bytes == 0 and frozen.thaw(stores.buckets[0])


def _frozen() -> tuple[BucketStores, "_Halting", FrozenBuckets[Any], threading.Thread]:
    """Return buckets that are frozen at a barrier, and the thread that writes them and halts at the first."""
    operator = paged(PagingOptions(None, 8_000, 4_000))
    stores = spread(operator)
    list(operator.on_barrier(1))
    keeping = _Halting()
    frozen = stores.freeze(stores.buckets, keeping)
    thread = threading.Thread(target=frozen.write)
    thread.start()
    return stores, keeping, frozen, thread


@dataclass(frozen=True)
class _Image:
    bytes: int = 1


class _Halting(Keeping[_Image]):
    """Says which bucket is encoded first, and goes on when it is told."""

    in_pages = False
    at_once = 2

    def __init__(self) -> None:
        self.begun: queue.SimpleQueue[Bucket] = queue.SimpleQueue()
        self.goes_on = threading.Event()
        self.kept: list[Bucket] = []
        self._is_first = True

    def encode(self, bucket: Bucket, notes: Notes) -> _Image:
        is_first, self._is_first = self._is_first, False
        if is_first:
            self.begun.put(bucket)
            assert self.goes_on.wait(60)
        return _Image()

    def put(self, encoded: Sequence[tuple[Bucket, _Image]]) -> None:
        self.kept += [bucket for bucket, _ in encoded]

    def forget(self, bucket: Bucket, encoded: _Image) -> None:
        pass

    def encoding(self) -> AbstractContextManager[Any]:
        return nullcontext()
