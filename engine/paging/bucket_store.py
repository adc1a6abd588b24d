"""The buckets of one paged operator instance: which are in memory, under a byte budget, and which in the page store.

To the rest of the engine it is the instance's state store. `paged_operator` says when buckets are used.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.contract import Notes, Operator, OperatorContext
from penstock.engine.paging.bucket import Bucket, ResidentState, swept_us
from penstock.engine.paging.bucket_accesses import BucketAccesses
from penstock.engine.paging.bucket_pages import bucket_range, read_bucket
from penstock.engine.paging.bucket_writing import write_bucket
from penstock.engine.paging.frozen_buckets import E, FrozenBuckets, Keeping
from penstock.engine.paging.key_ranges import bytes_of_groups, held_by, lows_of
from penstock.engine.paging.memory_bound import UNBOUNDED, FreeMemory, MemoryBound
from penstock.engine.paging.options import PagingOptions
from penstock.model.columns import Floats
from penstock.model.errors import BugError, CheckpointError
from penstock.state.store import Accesses, KeyedTable, Locate, RowLog, StateStore, TableSpec
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.stores.page_store import PageStore
from penstock.state.tables.image import StoreImage

__all__ = ["BucketStores", "PagingOptions"]


class BucketStores(StateStore):
    """Sorted, disjoint buckets that cover what the instance owns."""

    def __init__(
        self,
        owner: str,
        options: PagingOptions,
        open_pages: Callable[[int], PageStore],
        make: Callable[[], Operator],
        context: OperatorContext,
    ) -> None:
        """Begin with no bucket; the page store is opened, with so much memory, when the first one is stored."""
        self.buckets: list[Bucket] = []
        self.bound = MemoryBound(options)
        self._owner = owner
        self._open_pages = open_pages
        self._make = make
        self._context = context
        self._pages: PageStore | None = None
        self._resident: dict[int, Bucket] = {}
        self._page_memory_bytes = 0
        self._cut: FrozenBuckets[Any] | None = None
        self._writing = threading.Lock()
        self._closed = False
        self._closed_bytes = 0
        self.unchecked: set[int] = set()
        """First positions of the buckets that were stored since the last copy of the page store."""
        self.awaited = 0
        """How many buckets are awaited."""
        self.accessed = BucketAccesses(context.clock)
        """The account of what reaches buckets."""

    @property
    def options(self) -> PagingOptions:
        """What bounds memory now."""
        return self.bound.options

    @property
    def key_groups(self) -> int:
        """How many key groups there are, of all instances."""
        return len(self._context.key_groups)

    @property
    def pages(self) -> PageStore:
        """The page store, opened at its first use."""
        memory_bytes = self.options.page_memory_bytes
        if self._pages is None:
            self._pages = self._open_pages(memory_bytes)
        elif memory_bytes != self._page_memory_bytes:
            self._pages.set_memory(memory_bytes)
        self._page_memory_bytes = memory_bytes
        return self._pages

    @property
    def has_pages(self) -> bool:
        """True if anything was ever stored."""
        return self._pages is not None

    def direct(self) -> bool:
        """Return whether every bucket may be used at once, so that nothing needs to wait."""
        return self.is_together() and not self.frozen() and not self.is_full()

    def is_together(self) -> bool:
        """Return whether every bucket is in memory."""
        return len(self._resident) == len(self.buckets)

    def frozen(self) -> bool:
        """Return whether a bucket is not encoded yet for the checkpoint that is written; see `may_use`."""
        cut = self._cut
        return cut is not None and cut.any_frozen()

    def writing_out(self) -> bool:
        """Return whether a checkpoint is written that needs the buckets, or their pages, as they are.

        Until all are encoded, and there is a copy of the page store if they lie there, buckets may be used as far as
        they are encoded and there is room, but none may be stored or cut, only what is stored as it is may be let go,
        and no other checkpoint may begin.
        """
        cut = self._cut
        return cut is not None and (cut.in_pages or cut.any_frozen())

    def is_full(self) -> bool:
        """Return whether what is in memory must not grow, as a checkpoint is written and nothing can make room."""
        return self.writing_out() and not self._fits(self.image_bytes())

    def room(self) -> FreeMemory:
        """Return what a checkpoint that is written leaves for buckets that are used meanwhile."""
        limit = self.options.held_bytes
        if limit is None or not self.writing_out():
            return UNBOUNDED
        return FreeMemory(
            limit - self.held_bytes() - self.image_bytes(), sum(bucket.bytes for bucket in self.evictable())
        )

    def may_use(self, bucket: Bucket, needed_bytes: int, room: FreeMemory) -> bool:
        """Return whether a checkpoint that is written lets a bucket be used; if not, the loop is woken once it may.

        ``needed_bytes`` is what is to be in memory besides if it must be loaded.
        """
        cut = self._cut
        if bucket.awaited:
            return False
        if cut is None:
            return True
        if not bucket.is_resident:
            return room.free_bytes + room.evictable_bytes >= needed_bytes
        return room.free_bytes >= 0 and cut.may_thaw(bucket, room.free_bytes)

    def use(self, bucket: Bucket) -> bool:
        """Make a bucket free to be used, and return whether it is: `may_use` has said so."""
        cut = self._cut
        return cut is None or cut.thaw(bucket)

    def freeze(self, buckets: Sequence[Bucket], keeping: Keeping[E]) -> FrozenBuckets[E]:
        """Begin a checkpoint of what these buckets, in memory, are now; it ends with `release`."""
        cut = FrozenBuckets(buckets, keeping, self._fits, self._context.wake)
        self._cut = cut
        return cut

    def release(self, cut: FrozenBuckets[Any]) -> None:
        """End a checkpoint: buckets may be used, stored and cut again; from any thread."""
        cut.release()
        if self._cut is cut:
            self._cut = None
        self._context.wake()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep everything open while another thread writes a checkpoint of it.

        Raises:
            CheckpointError: it was closed before.
        """
        with self._writing:
            if self._closed:
                raise CheckpointError(f"operator {self._owner!r} was closed before its checkpoint was written.")
            yield

    def load(self, bucket: Bucket) -> None:
        """Bring a bucket into memory."""
        began_ns = self._context.clock.monotonic_ns()
        if bucket.stored:
            image = read_bucket(self.pages, bucket.span.low)
            self.hold(bucket, StoreImage([] if image.part is None else [image.part]), (image.notes,))
            assert bucket.held is not None
            bucket.stored_changes = bucket.held.store.changes()
        else:
            self.hold(bucket, StoreImage(), ())
        self.accessed.moved_ns += self._context.clock.monotonic_ns() - began_ns

    def evict(self, bucket: Bucket) -> None:
        """Let a bucket go from memory, storing it if it was used; it has nothing pending."""
        began_ns, stalled_ns = self._context.clock.monotonic_ns(), self._stalled_ns()
        if bucket.dirty or not bucket.stored:
            self.store(bucket)
        bucket.paged_due_us, bucket.paged_timer_ns = bucket.due_us(), bucket.timer_ns()
        bucket.needed_bytes = bucket.bytes
        self.let_go(bucket)
        took_ns = self._context.clock.monotonic_ns() - began_ns
        # Writes of a checkpoint stall as well, and are no part of it.
        self.accessed.moved_ns += took_ns - (self._stalled_ns() - stalled_ns)

    def store(self, bucket: Bucket) -> None:
        """Store what a bucket has in memory."""
        assert not self.writing_out()
        write_bucket(self.pages, bucket, bucket.notes())
        self.unchecked.add(bucket.span.low)

    def copy_to(self, pages: PageStore, directory: Path) -> list[str]:
        """Make a copy of the page store of which everything that was stored since the last one was read back.

        Runs beside the worker loop.

        Raises:
            StateCorruptionError: what was stored is not what lies in the files.
        """
        # A bucket that is stored from here on is for the next copy.
        unchecked, self.unchecked = self.unchecked, set()
        try:
            names = pages.copy_to(directory)
            pages.check(directory, [bucket_range(low) for low in sorted(unchecked)])
        except BaseException:
            self.unchecked.update(unchecked)
            raise
        return names

    def is_too_large(self, bucket: Bucket) -> bool:
        """Return whether a bucket in memory is to be cut."""
        if self.writing_out():
            return False
        largest_bytes = max(self.bound.goal.largest_bytes(len(self.buckets)), bucket.whole_bytes)
        return bucket.bytes > largest_bytes and bucket.span.high - bucket.span.low > 1

    def to_evict(self, needed_bytes: int) -> Iterator[Bucket]:
        """Yield buckets, the longest unused first, as long as there is not so much room besides them."""
        limit = self.options.held_bytes
        if limit is None:
            return
        used = self.held_bytes()
        if self.writing_out():
            # Images that are only brought away go by themselves, and sooner than buckets that make room for them.
            used += self.image_bytes()
        if used + needed_bytes <= limit:
            return
        for bucket in self.evictable():
            if used + needed_bytes <= limit:
                return
            used -= bucket.bytes
            yield bucket

    def places(self, port: int, rows: pa.RecordBatch, buckets: Sequence[Bucket]) -> NDArray[np.int64]:
        """Return which of these buckets, sorted, each row of an input belongs to."""
        positions = self._context.locate[port](rows)
        places = np.searchsorted(lows_of([bucket.span for bucket in buckets]), positions, side="right") - 1
        if places.min(initial=0) < 0:
            raise BugError(f"operator {self._owner!r} got rows of keys that another instance owns; please report it.")
        return places

    def within(self, port: int, rows: pa.RecordBatch, buckets: Sequence[Bucket]) -> NDArray[np.bool_]:
        """Return which rows of an input belong to one of these buckets, sorted."""
        return held_by([bucket.span for bucket in buckets], self._context.locate[port](rows))

    def accesses(self) -> Accesses:
        """Return how many rows there were, how many found their bucket in memory, and how long the others took."""
        own = self.accessed
        return Accesses(own.hits + own.misses, own.hits, own.moved_ns, self._stalled_ns())

    def reuse(self) -> Floats:
        """Return accesses by `REUSE_BOUNDS` of how far back their bucket was used; from any thread."""
        return self.accessed.reuse(self.bytes_used())

    def group_bytes(self) -> Floats:
        """Return the bytes of each key group, in memory or stored; in a bucket of several they lie evenly."""
        buckets = list(self.buckets)
        sizes = [bucket.bytes if bucket.is_resident else bucket.paged_bytes for bucket in buckets]
        return bytes_of_groups([bucket.span for bucket in buckets], sizes, self.key_groups)

    def held_bytes(self) -> int:
        """Return the bytes of the buckets in memory; from any thread."""
        return sum(bucket.bytes for bucket in list(self._resident.values()))

    def close(self, *, abort: bool) -> None:
        """Release the operators and the page store, once no other thread writes to it."""
        with self._writing:
            self._closed_bytes = 0 if abort else self.bytes_used()
            self._closed = True
            try:
                for bucket in self.buckets:
                    held, bucket.held = bucket.held, None
                    if held is not None:
                        (held.operator.abort if abort else held.operator.close)()
            finally:
                if self._pages is not None:
                    self._pages.close()

    def table(self, spec: TableSpec) -> KeyedTable:
        """Refuse: tables belong to buckets."""
        raise BugError(f"operator {self._owner!r} opens a table outside of its buckets.")

    def log(self, name: str, schema: pa.Schema, locate: Locate | None = None) -> RowLog:
        """Refuse: logs belong to buckets."""
        raise BugError(f"operator {self._owner!r} opens a log outside of its buckets.")

    def set_budget(self, budget_bytes: int | None) -> None:
        """Change the byte budget; buckets are let go, and the page store gets its share, with the next batch."""
        self.bound.set(budget_bytes)

    def approach_budget(self, budget_bytes: int | None) -> None:
        """Change the byte budget without holding anything up: more holds at once, less once `surplus` was let go."""
        self.bound.approach(budget_bytes, self.held_bytes() + self.image_bytes())
        self._context.wake()

    def is_shrinking(self) -> bool:
        """Return whether buckets are to go for a budget that was lowered, and may: no checkpoint is written."""
        return self.bound.is_falling and not self.writing_out()

    def bytes_used(self) -> int:
        """Return the bytes of the buckets in memory, those at the end once it is closed; from any thread."""
        return self._closed_bytes if self._closed else self.held_bytes()

    def names(self) -> Sequence[str]:
        """Return the names of the tables and logs of the buckets in memory, sorted."""
        return sorted(
            {name for bucket in self.buckets if bucket.held is not None for name in bucket.held.store.names()}
        )

    def contents(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of all buckets; slots and ids are those of each bucket."""
        for bucket in self.buckets:
            if bucket.held is not None:
                yield from bucket.held.store.contents()
            elif bucket.stored and (part := read_bucket(self.pages, bucket.span.low).part) is not None:
                for name, batches in part.batches.items():
                    yield from ((name, rows) for rows in batches)

    def evictable(self) -> Sequence[Bucket]:
        """Return the buckets in memory that may be let go, the longest unused first; the last used one stays."""
        resident = sorted(self._resident.values(), key=lambda item: item.used)[:-1]
        cut = self._cut
        if cut is None or not self.writing_out():
            return resident
        return [item for item in resident if item.stored and not item.dirty and cut.is_stored(item)]

    def image_bytes(self) -> int:
        """Return the bytes of what is encoded for a checkpoint and not stored yet; from any thread."""
        cut = self._cut
        return 0 if cut is None else cut.image_bytes

    def _fits(self, more_bytes: int) -> bool:
        """Return whether there is room for so much besides the buckets in memory; from any thread."""
        limit = self.options.held_bytes
        return limit is None or self.held_bytes() + more_bytes <= limit

    def hold(self, bucket: Bucket, image: StoreImage, notes: Sequence[Notes]) -> None:
        """Make the operator of a bucket, which goes on from an image and the notes that lay beside it."""
        store = MemoryStore(self._owner, None, image)
        operator = self._make()
        operator.open(replace(self._context, state=store, restored=tuple(notes)))
        # It takes as much memory as the bucket itself.
        store.forget_image()
        for item in notes:
            bucket.watermark_us = max(bucket.watermark_us, swept_us(item))
        bucket.held = ResidentState(operator, store)
        self._resident[id(bucket)] = bucket

    def let_go(self, bucket: Bucket) -> None:
        """Give the memory of a bucket back: nothing else refers to its operator, which is in no cycle of references."""
        bucket.operator.close()
        bucket.held = None
        del self._resident[id(bucket)]

    def _stalled_ns(self) -> int:
        return 0 if self._pages is None else self._pages.stalled_ns()
