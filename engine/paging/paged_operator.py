"""A keyed operator over state that need not fit in memory: one clone of it for each bucket of keys.

As long as everything fits there is one bucket, and calls go straight to its operator. A bucket that grows too large is
cut into several; those that do not fit the budget lie in the page store, and input waits until one look at each of
them serves many rows (docs/design/keyed-state.md 4).
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from penstock.engine.core.contract import Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch, Watermark
from penstock.engine.paging.beginnings import begin
from penstock.engine.paging.bucket import PASSED, SWEPT, Bucket, BucketSource
from penstock.engine.paging.bucket_moves import BucketMoves
from penstock.engine.paging.bucket_store import BucketStores, Room, part_of
from penstock.engine.paging.growth import Growth
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.pages_cut import PagedCut, PagesCut
from penstock.engine.paging.ring import owned_spans
from penstock.engine.paging.sweep import Sweep, Turn
from penstock.engine.paging.waiting import LaterInput, WaitingInput
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
        self._moves = BucketMoves(self._stores)
        super().open(replace(context, state=self._stores))
        for span in owned_spans(context.key_groups, context.instance):
            begin(self._stores, span, self._sources)
        self._sources = ()
        self._growth = Growth()
        self._waiting = WaitingInput(0)
        self._waiting_since_ns = 0
        # What is left of the sweep under way. What comes meanwhile is behind everything that waits.
        self._unswept = Sweep()
        self._later = LaterInput()
        self._fetched: Bucket | None = None
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
            yield from self._moves.advance(bucket, self._swept_us)
            piece, left = self._growth.cut(rest, stores.options)
            stores.count_access(bucket, piece.rows.num_rows)
            yield from self._feed(bucket, port, piece)
            left_rows = 0 if left is None else left.rows.num_rows
            yield from self._moves.fit(bucket, added_bytes=self._growth.bytes_of(left_rows))
            if left is None:
                return
            rest = left
        if self._unswept and not stores.writing_out():
            # Whoever calls did not ask for room.
            yield from self._sweep()
        if self._unswept:
            self._later.add(port, rest)
            return
        self._enqueue(port, rest)
        if stores.frozen():
            # The loop works it off in slices, as each bucket may have to be encoded first.
            return
        # Only a batch that is too large for all that may wait is worked off at once: there is room until it is full.
        if stores.direct() or self._waiting.bytes >= 2 * stores.options.waiting_bytes:
            yield from self._sweep()
        yield from self._moves.make_room(0)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Pass the time on to every bucket that it says something to, or let it wait behind the rows."""
        stores = self._stores
        if self._is_simple():
            bucket = stores.buckets[0]
            yield from self._moves.advance(bucket, time_us)
            self._swept_us = time_us
            self._passed_us = max(self._passed_us, bucket.operator.output_watermark(time_us))
            yield from self._moves.fit(bucket)
            return
        if self._unswept:
            self._later.add_watermark(time_us)
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
        options = self._stores.options
        if self._stores.writing_out():
            return self._waiting.bytes + self._later.bytes < 2 * options.waiting_bytes
        return not self._unswept and self._waiting.bytes < options.waiting_bytes

    def takes_barrier(self) -> bool:
        """Return whether everything is worked off, and the checkpoint before is written or given up."""
        self._hurried = self._stores.frozen() or bool(self._waiting) or self.has_pending()
        return not self._hurried and not self._stores.writing_out()

    def timer_ns(self) -> int | None:
        """Return when a bucket's timer is due, or what waits has waited long enough; for a checkpoint nothing is."""
        if self._released_us is not None or self._asked_at_once:
            return self._waiting_since_ns
        stores = self._stores
        if not self._timed and not self._waiting and not self._hurried:
            return None
        if self._unswept:
            room = stores.room()
            return self._waiting_since_ns if any(self._may_begin(turn, room) for turn in self._unswept) else None
        if self._hurried and not stores.writing_out():
            return self._waiting_since_ns
        timers = []
        if self._timed:
            room = stores.room()
            usable = [item for item in stores.buckets if stores.may_use(item, self._needed_bytes(item), room)]
            timers += [timer for bucket in usable if (timer := bucket.timer_ns()) is not None]
        if self._waiting:
            at_once = self._hurried or self._is_full() or self._waiting.watermark_us == END_OF_TIME_US
            # Where all is in memory rows wait for a checkpoint alone.
            at_once |= stores.is_together()
            timers.append(self._waiting_since_ns + (0 if at_once else stores.options.patience_ns))
        return min(timers, default=None)

    def has_pending(self) -> bool:
        """Return whether a bucket in memory kept something for a quiet moment."""
        if not self._keeping:
            return False
        room = self._stores.room()
        return any(
            bucket.is_resident and bucket.operator.has_pending() and self._stores.may_use(bucket, 0, room)
            for bucket in self._stores.buckets
        )

    def unanswered(self) -> bool:
        """Return whether input waits: the end, and idleness, wait behind it."""
        return bool(self._waiting)

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Work off a slice of what waits, then run the due timers of the buckets, as far as a checkpoint lets them."""
        stores = self._stores
        yield from self._sweep(SLICE_NS)
        if self._waiting or (not self._timed and not self._keeping):
            return
        began_ns = self._clock.monotonic_ns()
        for bucket in list(stores.buckets):
            due_ns = bucket.timer_ns()
            pending = bucket.is_resident and bucket.operator.has_pending()
            if not pending and (due_ns is None or due_ns > now_ns):
                continue
            if stores.may_use(bucket, self._needed_bytes(bucket), stores.room()) and stores.use(bucket):
                stores.count_access(bucket, 0)
                yield from self._moves.load(bucket)
                bucket.touch()
                yield from bucket.operator.on_timer(now_ns)
                yield from self._moves.fit(bucket)
                if self._clock.monotonic_ns() - began_ns >= SLICE_NS:
                    # The others are still due.
                    return

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Bring what is in memory to the barrier.

        Rows that wait are before it: those that are left if nobody asked `takes_barrier` are worked off.
        """
        stores = self._stores
        if stores.writing_out():
            raise BugError(f"operator {self.context.name!r} got a barrier while a checkpoint is written.")
        self._hurried = False
        self._asked_at_once = bool(self._waiting)
        yield from self._sweep()
        for bucket in stores.buckets:
            # What is stored as it is was flushed for that, and may lag behind the time as if it were not there.
            if bucket.is_resident and (bucket.dirty or not bucket.stored):
                yield from self._moves.advance(bucket, self._swept_us)
                yield from bucket.operator.on_barrier(epoch)

    def notes(self) -> Notes:
        """Return how far the input has come; every bucket's own notes lie with its state."""
        return {SWEPT: self._swept_us, PASSED: self._passed_us}

    def cut(self) -> PagedCut:
        """Return what the operator contributes to a checkpoint, right after `on_barrier`'s emissions.

        Where there are pages, or much to store, buckets stay frozen until they are encoded, or the cut is released.
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
            yield from self._moves.load(bucket)
            bucket.touch()
            yield from bucket.operator.on_end()
            yield from self._moves.fit(bucket)

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

    def _needed_bytes(self, bucket: Bucket) -> int:
        """Return what has to find room for a bucket to be loaded: itself, and all that waits."""
        return self._moves.needed_bytes(bucket, self._waiting.bytes)

    def _may_begin(self, turn: Turn, room: Room) -> bool:
        """Return whether a checkpoint that is written lets a bucket take its turn now."""
        bucket = turn.bucket
        return not self._concerns(turn) or self._stores.may_use(bucket, self._needed_bytes(bucket), room)

    def _concerns(self, turn: Turn) -> bool:
        """Return whether something that waits is a bucket's: rows, or a watermark that it waits for."""
        if turn.rows:
            return True
        until_us, due_us = self._waiting.watermark_us, turn.bucket.due_us()
        return until_us is not None and due_us is not None and due_us <= until_us

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

        So is what a checkpoint that is written holds back.

        Only a bucket that has done so may be cut: the shares of the others are by their places.
        """
        began_ns = self._clock.monotonic_ns()
        # A watermark that came in the middle of a sweep takes one more.
        while waiting := self._waiting:
            if not self._unswept:
                self._unswept.begin(self._stores.buckets, waiting.counts().tolist())
            while self._unswept:
                if not self._unswept.choose(partial(self._may_begin, room=self._stores.room())):
                    return
                turn = self._unswept.first
                bucket = turn.bucket
                if self._concerns(turn):
                    if not self._stores.use(bucket):
                        return
                    if self._fetched is not bucket:
                        self._stores.count_access(bucket, turn.rows)
                    if not bucket.is_resident:
                        yield from self._moves.load(bucket, waiting.bytes)
                        if slice_ns is not None and self._clock.monotonic_ns() - began_ns >= slice_ns:
                            self._fetched = bucket
                            return
                    self._fetched = None
                    yield from self._work_off(turn, waiting)
                    yield from self._moves.fit(bucket, waiting.bytes)
                self._unswept.end_turn()
                if self._unswept and slice_ns is not None and self._clock.monotonic_ns() - began_ns >= slice_ns:
                    return
            self._end_sweep(waiting)

    def _end_sweep(self, waiting: WaitingInput) -> None:
        if waiting.watermark_us is not None:
            self._swept_us = waiting.watermark_us
            self._passed_us = max(self._passed_us, self._moves.output_watermark(waiting.watermark_us))
            self._released_us = self._passed_us
        waiting.clear()
        for item in self._later.take():
            if isinstance(item, Watermark):
                self._start_waiting()
                self._waiting.add_watermark(item.time_us)
            else:
                self._enqueue(*item)

    def _work_off(self, turn: Turn, waiting: WaitingInput) -> Iterator[Emission]:
        """Let a bucket in memory work its share off; if it is cut before it has, its pieces are next with the rest.

        So is the bucket itself if it cannot be cut as a checkpoint is written, and may not grow.
        """
        bucket, rows = turn.bucket, turn.rows
        yield from self._moves.advance(bucket, self._swept_us)
        shares = waiting.shares(turn.place, minds_watermarks=self._minds_watermarks)
        for item in shares:
            if isinstance(item, Watermark):
                yield from self._moves.advance(bucket, item.time_us)
                continue
            port, left = item[0], cast(Batch | None, item[1])
            while left is not None:
                piece, left = self._growth.cut(left, self._stores.options)
                yield from self._feed(bucket, port, piece)
                rows -= piece.rows.num_rows
                too_large = self._stores.is_too_large(bucket)
                if rows and (too_large or self._stores.is_full()):
                    rest = shares if left is None else itertools.chain([(port, left)], shares)
                    pieces = [bucket]
                    if too_large:
                        pieces = yield from self._moves.split(bucket, self._growth.bytes_of(rows))
                    self._share_out(rest, pieces, waiting)
                    return

    def _share_out(
        self, items: Iterable[tuple[int, Batch] | Watermark], pieces: Sequence[Bucket], waiting: WaitingInput
    ) -> None:
        """Let the pieces of the bucket under the sweep, or itself, have what it has not worked off."""
        parts = WaitingInput(len(pieces))
        for item in items:
            if isinstance(item, Watermark):
                parts.add_watermark(item.time_us)
            else:
                port, batch = item
                parts.add(port, batch, self._stores.places(port, batch.rows, pieces))
        self._unswept.insert(waiting.add_parts(parts), pieces, parts.counts().tolist())


def _overrides(operator: Operator, method: str) -> bool:
    return getattr(type(operator), method) is not getattr(Operator, method)
