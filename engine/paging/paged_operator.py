"""A keyed operator over state that need not fit in memory: one clone of it for each bucket of keys.

As long as everything fits there is one bucket, and calls go straight to its operator. A bucket that grows too large is
cut into several; those that do not fit the budget lie in the page store, and input waits until one look at each of
them serves many rows (docs/design/keyed-state.md 4).
"""

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from penstock.engine.core.contract import Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch, Watermark
from penstock.engine.paging.bucket import PASSED, SWEPT, Bucket, BucketSource
from penstock.engine.paging.bucket_store import BucketStores, part_of
from penstock.engine.paging.growth import Growth
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.pages_cut import PagedCut, PagesCut
from penstock.engine.paging.ring import owned_spans
from penstock.engine.paging.sweep import Sweep, Turn
from penstock.engine.paging.waiting import WaitingInput
from penstock.model.errors import BugError
from penstock.state.stores.page_store import PageStore

SLICE_NS = 10_000_000
"""After how long a sweep lets the worker loop go on: between two buckets, or before one that was fetched."""

INLINE_BYTES = 8 << 20
"""State up to this is copied at the barrier, which takes a few milliseconds; more is stored by another thread."""


class PagedOperator(Operator):
    """Stands for an operator whose every input has keys, and whose state lies by them."""

    def __init__(
        self,
        make: Callable[[], Operator],
        options: PagingOptions,
        open_pages: Callable[[int], PageStore],
        sources: Sequence[BucketSource] = (),
    ) -> None:
        """``make`` returns the operator, ``open_pages`` an empty page store that may take so many bytes of memory.

        ``sources`` are what it goes on from.
        """
        self._make = make
        self._options = options
        self._open_pages = open_pages
        self._sources = sources

    def open(self, context: OperatorContext) -> None:
        """Make the buckets of what the instance owns."""
        template = self._make()
        self._minds_watermarks = template.minds_watermarks
        # With many buckets it takes long to ask each of them.
        self._timed = _overrides(template, "timer_ns")
        self._keeping = _overrides(template, "has_pending")
        self._ending = _overrides(template, "on_end")
        self._clock = context.clock
        self._stores = BucketStores(context.name, self._options, self._open_pages, self._make, context)
        super().open(replace(context, state=self._stores))
        for span in owned_spans(context.key_groups, context.instance):
            self._stores.begin(span, self._sources)
        self._sources = ()
        self._growth = Growth()
        self._waiting = WaitingInput(0)
        self._waiting_since_ns = 0
        # What is left of the sweep under way. What comes meanwhile is behind everything that waits.
        self._unswept = Sweep()
        self._fetched: Bucket | None = None
        self._next_us: int | None = None
        self._hurried = False
        self._swept_us = context.earliest(SWEPT, START_OF_TIME_US)
        self._passed_us = context.earliest(PASSED, START_OF_TIME_US)
        self._released_us: int | None = None
        # Idleness may wait behind rows that a barrier has worked off; `released_watermark` is when it goes on.
        self._asked_at_once = False

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Work rows off, or let them wait."""
        stores, rest = self._stores, batch
        while self._is_simple():
            bucket = stores.buckets[0]
            yield from self._advance(bucket, self._swept_us)
            piece, left = self._growth.cut(rest, stores.options)
            stores.count_access(bucket, piece.rows.num_rows)
            yield from self._feed(bucket, port, piece)
            left_rows = 0 if left is None else left.rows.num_rows
            yield from self._fit(bucket, added_bytes=self._growth.bytes_of(left_rows))
            if left is None:
                return
            rest = left
        if self._unswept:
            # Whoever calls did not ask for room.
            yield from self._sweep()
        self._enqueue(port, rest)
        if stores.frozen():
            return
        # Only a batch that is too large for all that may wait is worked off at once: there is room until it is full.
        if stores.direct() or self._waiting.bytes >= 2 * stores.options.waiting_bytes:
            yield from self._sweep()
        yield from self._make_room(0)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Pass the time on to every bucket that it says something to, or let it wait behind the rows."""
        stores = self._stores
        if self._is_simple():
            bucket = stores.buckets[0]
            yield from self._advance(bucket, time_us)
            self._swept_us = time_us
            self._passed_us = max(self._passed_us, bucket.operator.output_watermark(time_us))
            yield from self._fit(bucket)
            return
        if self._unswept:
            self._next_us = time_us
            return
        self._start_waiting()
        self._waiting.add_watermark(time_us)
        if stores.direct():
            yield from self._sweep()

    def output_watermark(self, time_us: int) -> int:
        """Return the watermark that all buckets have passed."""
        self._released_us = None
        return self._passed_us

    def released_watermark(self) -> int | None:
        """Return the watermark that a sweep outside of `on_watermark` has released."""
        released, self._released_us = self._released_us, None
        self._asked_at_once = False
        return released

    def has_room(self) -> bool:
        """Return whether more input may wait; a checkpoint that is written lets twice as much."""
        most_bytes = self._stores.options.waiting_bytes * (2 if self._stores.frozen() else 1)
        return not self._unswept and self._waiting.bytes < most_bytes

    def takes_barrier(self) -> bool:
        """Return whether everything is worked off, and the checkpoint before is written or given up."""
        self._hurried = self._stores.frozen() or bool(self._waiting) or self.has_pending()
        return not self._hurried and not self._stores.writing_out()

    def timer_ns(self) -> int | None:
        """Return when a bucket's timer is due, or when what waits has waited long enough."""
        if self._released_us is not None or self._asked_at_once:
            return self._waiting_since_ns
        stores = self._stores
        if not self._timed and not self._waiting and not self._hurried:
            return None
        if stores.frozen():
            return None
        if self._unswept or self._hurried:
            return self._waiting_since_ns
        timers = []
        if self._timed:
            timers += [timer for bucket in stores.buckets if (timer := bucket.timer_ns()) is not None]
        if self._waiting:
            at_once = self._is_full() or self._waiting.watermark_us == END_OF_TIME_US
            timers.append(self._waiting_since_ns + (0 if at_once else stores.options.patience_ns))
        return min(timers, default=None)

    def has_pending(self) -> bool:
        """Return whether a bucket in memory kept something for a quiet moment."""
        if not self._keeping or self._stores.frozen():
            return False
        return any(bucket.is_resident and bucket.operator.has_pending() for bucket in self._stores.buckets)

    def unanswered(self) -> bool:
        """Return whether input waits: the end, and idleness, wait behind it."""
        return bool(self._waiting)

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Work off a slice of what waits, then run the due timers of the buckets.

        A checkpoint that is still written goes first.
        """
        stores = self._stores
        if stores.frozen():
            return
        yield from self._sweep(SLICE_NS)
        if self._waiting or (not self._timed and not self._keeping):
            return
        began_ns = self._clock.monotonic_ns()
        for bucket in list(stores.buckets):
            due_ns = bucket.timer_ns()
            pending = bucket.is_resident and bucket.operator.has_pending()
            if (due_ns is not None and due_ns <= now_ns) or pending:
                stores.count_access(bucket, 0)
                yield from self._load(bucket)
                bucket.touch()
                yield from bucket.operator.on_timer(now_ns)
                yield from self._fit(bucket)
                if self._clock.monotonic_ns() - began_ns >= SLICE_NS:
                    # The others are still due.
                    return

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Bring what is in memory to the barrier.

        Rows that wait are before it: those that are left if nobody asked `takes_barrier` are worked off.
        """
        stores = self._stores
        if stores.frozen() or stores.writing_out():
            raise BugError(f"operator {self.context.name!r} got a barrier while a checkpoint is written.")
        self._hurried = False
        self._asked_at_once = bool(self._waiting)
        yield from self._sweep()
        for bucket in stores.buckets:
            # What is stored as it is was flushed for that, and may lag behind the time as if it were not there.
            if bucket.is_resident and (bucket.dirty or not bucket.stored):
                yield from self._advance(bucket, self._swept_us)
                yield from bucket.operator.on_barrier(epoch)

    def notes(self) -> Notes:
        """Return how far the input has come; every bucket's own notes lie with its state."""
        return {SWEPT: self._swept_us, PASSED: self._passed_us}

    def cut(self) -> PagedCut:
        """Return what the operator contributes to a checkpoint, right after `on_barrier`'s emissions.

        Where there are pages, or much to store, buckets stay frozen until the cut is released.
        """
        stores = self._stores
        if len(stores.buckets) == 1 and not stores.has_pages and stores.bytes_used() <= INLINE_BYTES:
            held = stores.buckets[0].held
            assert held is not None
            return PagedCut(held.operator.notes(), part_of(held.store))
        return PagedCut(pages=PagesCut(stores))

    def on_end(self) -> Iterable[Emission]:
        """Work everything off and end every bucket."""
        yield from self._sweep()
        if not self._ending:
            return
        for bucket in list(self._stores.buckets):
            self._stores.count_access(bucket, 0)
            yield from self._load(bucket)
            bucket.touch()
            yield from bucket.operator.on_end()
            yield from self._fit(bucket)

    def close(self) -> None:
        """Close what is in memory, and the page store."""
        self._stores.close(abort=False)

    def abort(self) -> None:
        """Release everything."""
        self._stores.close(abort=True)

    def _is_simple(self) -> bool:
        """Return whether there is one bucket, in memory, and nothing waits."""
        stores = self._stores
        return len(stores.buckets) == 1 and not self._waiting and stores.direct()

    def _is_full(self) -> bool:
        return self._waiting.bytes >= self._stores.options.waiting_bytes

    def _enqueue(self, port: int, batch: Batch) -> None:
        self._start_waiting()
        self._waiting.add(port, batch, self._stores.places(port, batch.rows, self._stores.buckets))

    def _feed(self, bucket: Bucket, port: int, piece: Batch) -> Iterator[Emission]:
        """Let a bucket in memory work rows off, and note what they add to it."""
        before_bytes = bucket.bytes
        bucket.touch()
        yield from bucket.operator.process(port, piece)
        if piece.rows.num_rows:
            self._growth.note(piece.rows.num_rows, bucket.bytes - before_bytes)

    def _start_waiting(self) -> None:
        if not self._waiting:
            self._waiting = WaitingInput(len(self._stores.buckets))
            self._waiting_since_ns = self._clock.monotonic_ns()

    def _sweep(self, slice_ns: int | None = None) -> Iterator[Emission]:
        """Let every bucket work its share off, those in memory first; after ``slice_ns`` the rest is for later.

        Only a bucket that has done so may be cut: the shares of the others are by their places.
        """
        began_ns = self._clock.monotonic_ns()
        # A watermark that came in the middle of a sweep takes one more.
        while waiting := self._waiting:
            if not self._unswept:
                self._unswept.begin(self._stores.buckets, waiting.counts().tolist())
            while self._unswept:
                turn = self._unswept.first
                bucket = turn.bucket
                due_us = bucket.due_us()
                says = waiting.watermark_us is not None and due_us is not None and due_us <= waiting.watermark_us
                if turn.rows or says:
                    if self._fetched is not bucket:
                        self._stores.count_access(bucket, turn.rows)
                    if not bucket.is_resident:
                        yield from self._load(bucket, waiting.bytes)
                        if slice_ns is not None and self._clock.monotonic_ns() - began_ns >= slice_ns:
                            self._fetched = bucket
                            return
                    self._fetched = None
                    yield from self._work_off(turn, waiting)
                    yield from self._fit(bucket, waiting.bytes)
                self._unswept.end_turn()
                if self._unswept and slice_ns is not None and self._clock.monotonic_ns() - began_ns >= slice_ns:
                    return
            self._end_sweep(waiting)

    def _end_sweep(self, waiting: WaitingInput) -> None:
        if waiting.watermark_us is not None:
            self._swept_us = waiting.watermark_us
            self._passed_us = max(self._passed_us, self._output_of(waiting.watermark_us))
            self._released_us = self._passed_us
        waiting.clear()
        if self._next_us is not None:
            self._start_waiting()
            self._waiting.add_watermark(self._next_us)
            self._next_us = None

    def _work_off(self, turn: Turn, waiting: WaitingInput) -> Iterator[Emission]:
        """Let a bucket in memory work its share off; if it is cut before it has, its pieces are next with the rest."""
        bucket, rows = turn.bucket, turn.rows
        yield from self._advance(bucket, self._swept_us)
        shares = waiting.shares(turn.place, minds_watermarks=self._minds_watermarks)
        for item in shares:
            if isinstance(item, Watermark):
                yield from self._advance(bucket, item.time_us)
                continue
            port, left = item[0], cast(Batch | None, item[1])
            while left is not None:
                piece, left = self._growth.cut(left, self._stores.options)
                yield from self._feed(bucket, port, piece)
                rows -= piece.rows.num_rows
                if rows and self._stores.is_too_large(bucket):
                    rest = shares if left is None else itertools.chain([(port, left)], shares)
                    pieces = yield from self._split(bucket, self._growth.bytes_of(rows))
                    self._share_out(rest, pieces, waiting)
                    return

    def _share_out(
        self, items: Iterable[tuple[int, Batch] | Watermark], pieces: Sequence[Bucket], waiting: WaitingInput
    ) -> None:
        """Let the pieces of the bucket under the sweep have what it has not worked off."""
        parts = WaitingInput(len(pieces))
        for item in items:
            if isinstance(item, Watermark):
                parts.add_watermark(item.time_us)
            else:
                port, batch = item
                parts.add(port, batch, self._stores.places(port, batch.rows, pieces))
        self._unswept.insert(waiting.add_parts(parts), pieces, parts.counts().tolist())

    def _advance(self, bucket: Bucket, time_us: int) -> Iterable[Emission]:
        if time_us <= bucket.watermark_us:
            return ()
        bucket.watermark_us = time_us
        bucket.touch()
        return bucket.operator.on_watermark(time_us)

    def _output_of(self, time_us: int) -> int:
        """Return the watermark that an operator passes on; it depends on its settings and the time alone."""
        resident = next((bucket for bucket in self._stores.buckets if bucket.is_resident), None)
        if resident is None:
            resident = self._stores.buckets[0]
            self._stores.load(resident)
        return resident.operator.output_watermark(time_us)

    def _load(self, bucket: Bucket, waiting_bytes: int = 0) -> Iterator[Emission]:
        if not bucket.is_resident:
            yield from self._make_room(max(bucket.paged_bytes, bucket.needed_bytes) + waiting_bytes)
            self._stores.load(bucket)

    def _fit(self, used: Bucket, waiting_bytes: int = 0, added_bytes: int = 0) -> Iterator[Emission]:
        """Cut the bucket that was used if it has grown too large, and let go of what does not fit."""
        if self._stores.is_too_large(used):
            yield from self._split(used, added_bytes)
        yield from self._make_room(waiting_bytes)

    def _split(self, bucket: Bucket, added_bytes: int = 0) -> Generator[Emission, None, list[Bucket]]:
        """Cut a bucket in memory into several that ``added_bytes`` more fit into; return these, sorted."""
        yield from bucket.operator.on_barrier(0)
        return self._stores.split(bucket, added_bytes)

    def _make_room(self, needed_bytes: int) -> Iterator[Emission]:
        for bucket in self._stores.to_evict(needed_bytes):
            if bucket.dirty:
                yield from bucket.operator.on_barrier(0)
            self._stores.evict(bucket)


def _overrides(operator: Operator, method: str) -> bool:
    return getattr(type(operator), method) is not getattr(Operator, method)
