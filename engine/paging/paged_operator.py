"""A keyed operator over state that need not fit in memory: one clone of it for each bucket of keys.

As long as everything fits there is one bucket, and calls go straight to its operator. A bucket that grows too large is
cut into several; those that do not fit the budget lie in the page store, and input waits until one look at each of
them serves many rows (docs/design/keyed-state.md 4).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.engine.core.contract import SLICE_NS, Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import START_OF_TIME_US, Batch, Reroute
from penstock.engine.paging.backlog import Backlog
from penstock.engine.paging.bucket import PASSED, SWEPT, BucketSource
from penstock.engine.paging.bucket_handover import BucketHandover, GivenBucket
from penstock.engine.paging.bucket_moves import BucketMoves
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.images_cut import ImagesCut, PagedCut
from penstock.engine.paging.key_ranges import owned_spans
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.pages_cut import PagesCut
from penstock.engine.paging.restored_buckets import begin
from penstock.model.errors import BugError
from penstock.state.stores.page_store import PageStore
from penstock.state.tables.image import dump_of

PAGES_NS = 1_000_000
"""After how long it is looked again whether more can go for a lower budget."""

MOST_AT_ONCE = 8
"""No more batches that wait are taken as one."""

INLINE_BYTES = 8 << 20
"""State up to this is copied at the barrier, which takes a few milliseconds; more is written by another thread."""


class PagedOperator(Operator):
    """Stands for an operator whose every input has keys, and whose state lies by them."""

    gives_state = True

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
        kind = type(template)
        # With many buckets it takes long to ask each of them.
        self._timed = kind.timer_ns is not Operator.timer_ns
        self._keeping = kind.has_pending is not Operator.has_pending
        self._ending = kind.on_end is not Operator.on_end
        self._clock = context.clock
        self._stores = BucketStores(context.name, self._options, self._open_pages, self._make, context)
        self._moves = BucketMoves(self._stores)
        super().open(replace(context, state=self._stores))
        begin(self._stores, owned_spans(context.key_groups, context.instance), self._sources)
        self._sources = ()
        swept_us, passed_us = (context.earliest(note, START_OF_TIME_US) for note in (SWEPT, PASSED))
        self._backlog = Backlog(self._stores, self._moves, self._clock, template.minds_watermarks, swept_us, passed_us)
        self._handover = BucketHandover(self._stores, self._moves)
        self._given: dict[int, tuple[GivenBucket, ...]] = {}
        self._hurried = False
        self._shrink_ns = 0
        self._timers_from = 0
        # Idleness may wait behind rows that a barrier has worked off; `released_watermark` is when it goes on.
        self._asked_at_once = False

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Work rows off, or let them wait."""
        stores, backlog, rest = self._stores, self._backlog, batch
        while self._is_simple():
            bucket = stores.buckets[0]
            yield from self._moves.advance(bucket, backlog.swept_us)
            piece, left = backlog.growth.cut(rest, stores.options)
            stores.accessed.alone(bucket, piece.rows.num_rows)
            yield from backlog.feed(bucket, port, piece)
            left_rows = 0 if left is None else left.rows.num_rows
            yield from self._moves.fit(bucket, added_bytes=backlog.growth.bytes_of(left_rows))
            if left is None:
                return
            rest = left
        if backlog.under_way and not stores.writing_out() and not self.has_room():
            # Whoever calls did not ask for room.
            yield from backlog.sweep()
        backlog.add(port, rest)
        if backlog.under_way:
            return
        if stores.frozen():
            # The loop works it off in slices, as each bucket may have to be encoded first.
            return
        if stores.direct():
            # Signals that come meanwhile need not wait for all buckets.
            yield from backlog.sweep(SLICE_NS)
        elif backlog.bytes >= 2 * stores.options.waiting_bytes:
            # A batch that is too large for all that may wait is worked off at once: there is room until it is full.
            yield from backlog.sweep()
        yield from self._moves.make_room(0)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Pass the time on to every bucket that it says something to, or let it wait behind the rows."""
        stores = self._stores
        if self._is_simple():
            bucket = stores.buckets[0]
            yield from self._moves.advance(bucket, time_us)
            self._backlog.advance(time_us, bucket.operator.output_watermark(time_us))
            yield from self._moves.fit(bucket)
            return
        under_way = self._backlog.under_way
        self._backlog.add_watermark(time_us)
        if not under_way and stores.direct():
            yield from self._backlog.sweep(SLICE_NS)

    def output_watermark(self, time_us: int) -> int:
        """Return the watermark that all buckets have passed."""
        self._backlog.released_us = None
        return self._backlog.passed_us

    def released_watermark(self) -> int | None:
        """Return the watermark that a sweep outside of `on_watermark` has released."""
        released, self._backlog.released_us = self._backlog.released_us, None
        self._asked_at_once = False
        return released

    def batches_at_once(self) -> int:
        """Return more the more buckets there are, as each batch goes through all of them; with a budget one."""
        stores = self._stores
        return 1 if stores.options.held_bytes is not None else min(MOST_AT_ONCE, 1 + len(stores.buckets) // 16)

    def has_room(self) -> bool:
        """Return whether more input may wait; a checkpoint that is written, or a bucket to come, lets twice as much.

        Without a budget batches may come behind a sweep until as much waits as is taken as one: a signal may be behind.
        """
        options, backlog = self._stores.options, self._backlog
        waiting_bytes = backlog.bytes + backlog.later_bytes
        if self._stores.writing_out() or self._stores.awaited:
            return waiting_bytes < 2 * options.waiting_bytes
        if backlog.under_way and options.held_bytes is None:
            most_rows = self.batches_at_once() * self.context.batch_rows
            return backlog.later_rows < most_rows and waiting_bytes < options.waiting_bytes
        return not backlog.under_way and not backlog.is_full

    def takes_barrier(self) -> bool:
        """Return whether everything is worked off and there, and the checkpoint before is written or given up."""
        if self._stores.awaited:
            return False
        self._hurried = self._stores.frozen() or bool(self._backlog) or self.has_pending()
        return not self._hurried and not self._stores.writing_out()

    def timer_ns(self) -> int | None:
        """Return when a bucket's timer is due, or what waits has waited long enough; for a checkpoint nothing is."""
        stores, backlog = self._stores, self._backlog
        if backlog.released_us is not None or self._asked_at_once:
            return backlog.since_ns
        if stores.is_shrinking():
            return self._shrink_ns
        if not self._timed and not backlog and not self._hurried:
            return None
        if backlog.under_way:
            return backlog.since_ns if backlog.may_go_on() else None
        if self._hurried and not stores.writing_out():
            return backlog.since_ns
        timers = []
        if self._timed:
            room = stores.room()
            usable = [item for item in stores.buckets if stores.may_use(item, backlog.needed_bytes(item), room)]
            timers += [timer for bucket in usable if (timer := bucket.timer_ns()) is not None]
        if backlog:
            at_once = self._hurried or backlog.is_full or backlog.has_ended
            # Where all is in memory rows wait for a checkpoint alone.
            at_once |= stores.is_together()
            timers.append(backlog.since_ns + (0 if at_once else stores.options.patience_ns))
        return min(timers, default=None)

    def has_pending(self) -> bool:
        """Return whether a bucket in memory kept something for a quiet moment, and may be asked for it now."""
        if not self._keeping or (self._backlog.under_way and not self._backlog.may_go_on()):
            return False
        room = self._stores.room()
        return any(
            bucket.is_resident and bucket.operator.has_pending() and self._stores.may_use(bucket, 0, room)
            for bucket in self._stores.buckets
        )

    def unanswered(self) -> bool:
        """Return whether input waits: the end, and idleness, wait behind it."""
        return bool(self._backlog)

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Work off a slice of what waits, and run the due timers of the buckets between two sweeps."""
        backlog = self._backlog
        yield from self._shrink(now_ns)
        until_ns = self._clock.monotonic_ns() + SLICE_NS
        yield from backlog.sweep(SLICE_NS)
        if backlog.under_way:
            return
        if self._timed or self._keeping:
            yield from self._run_timers(now_ns)
        if backlog:
            yield from backlog.sweep(max(0, until_ns - self._clock.monotonic_ns()))

    def _run_timers(self, now_ns: int) -> Iterable[Emission]:
        """Run a slice of the due timers, from where the last one ended, as far as a checkpoint lets buckets be used."""
        stores, backlog = self._stores, self._backlog
        began_ns = self._clock.monotonic_ns()
        first = min(self._timers_from, len(stores.buckets))
        for place, bucket in enumerate([*stores.buckets[first:], *stores.buckets[:first]], first):
            due_ns = bucket.timer_ns()
            # It is no quiet moment while rows wait.
            pending = not backlog and bucket.is_resident and bucket.operator.has_pending()
            if not pending and (due_ns is None or due_ns > now_ns):
                continue
            if stores.may_use(bucket, backlog.needed_bytes(bucket), stores.room()) and stores.use(bucket):
                stores.accessed.use(bucket)
                yield from self._moves.load(bucket, backlog.bytes)
                bucket.touch()
                yield from bucket.operator.on_timer(now_ns)
                if backlog:
                    # Rows that wait are by the places of the buckets: it is cut when it has worked off its own.
                    yield from self._moves.make_room(backlog.bytes)
                else:
                    yield from self._moves.fit(bucket)
                if self._clock.monotonic_ns() - began_ns >= SLICE_NS:
                    # The others are still due.
                    self._timers_from = (place + 1) % len(stores.buckets)
                    return

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Bring what is in memory to the barrier.

        Rows that wait are before it: those that are left if nobody asked `takes_barrier` are worked off.
        """
        stores = self._stores
        if stores.writing_out():
            raise BugError(f"operator {self.context.name!r} got a barrier while a checkpoint is written.")
        self._hurried = False
        self._asked_at_once = bool(self._backlog)
        yield from self._backlog.sweep()
        for bucket in stores.buckets:
            # What is stored as it is was flushed for that, and may lag behind the time as if it were not there.
            if bucket.is_resident and not bucket.is_kept and (bucket.dirty or not bucket.stored):
                yield from self._moves.advance(bucket, self._backlog.swept_us)
                yield from bucket.operator.on_barrier(epoch)

    def takes_reroute(self, reroute: Reroute, *, is_last: bool) -> bool:
        """Return whether it does not concern this instance, or all rows before it are worked off.

        Where it ``is_last`` rows of the buckets that are given or cut are enough, and `on_reroute` sees to them. What
        buckets keep for a quiet moment stays there, but for these; and the checkpoint before is written or given up.
        """
        stores = self._stores
        if not reroute.concerns(self.context.instance):
            return True
        if stores.awaited:
            return False
        self._hurried = stores.frozen() or (bool(self._backlog) and not is_last)
        return not self._hurried and not stores.writing_out()

    def on_reroute(self, reroute: Reroute) -> Iterable[Emission]:
        """Take what moves away out of the buckets, until `take_given`, and await what comes, until `install`.

        Buckets that are given are brought to the last watermark before it, which others need not have come to.
        """
        super().on_reroute(reroute)
        instance, owners = self.context.instance, self.context.key_groups
        if not reroute.concerns(instance):
            return
        self._hurried = False
        yield from self._backlog.settle(self._handover.reached(reroute, owners, instance))
        self._given = yield from self._handover.give(reroute, owners, instance, self._backlog.latest_us)
        yield from self._handover.make_way(reroute, owners, instance)
        yield from self._moves.make_room(0)

    def take_given(self) -> Mapping[int, Sequence[GivenBucket]]:
        """Return what this instance has given by the last marker, by who takes it, once."""
        given, self._given = self._given, {}
        return given

    def install(self, buckets: Iterable[GivenBucket]) -> None:
        """Take in buckets that are awaited; between two steps."""
        for given in buckets:
            self._handover.install(given)

    def notes(self) -> Notes:
        """Return how far the input has come; every bucket's own notes lie with its state."""
        return {SWEPT: self._backlog.swept_us, PASSED: self._backlog.passed_us}

    def cut(self) -> PagedCut:
        """Return what the operator contributes to a checkpoint, right after `on_barrier`'s emissions.

        Where there are pages, or much to write, buckets stay frozen until they are encoded, or the cut is released.
        """
        stores = self._stores
        if len(stores.buckets) == 1 and not stores.has_pages and stores.bytes_used() <= INLINE_BYTES:
            held = stores.buckets[0].held
            assert held is not None
            return PagedCut(held.operator.notes(), dump_of(held.store.contents()))
        return PagedCut(buckets=PagesCut(stores) if stores.has_pages else ImagesCut(stores))

    def on_end(self) -> Iterable[Emission]:
        """Work everything off and end every bucket."""
        yield from self._backlog.sweep()
        if not self._ending:
            return
        for bucket in list(self._stores.buckets):
            self._stores.accessed.use(bucket)
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

    def _shrink(self, now_ns: int) -> Iterable[Emission]:
        """Let go of a slice of what is above a budget that was lowered."""
        stores, backlog = self._stores, self._backlog
        if not stores.is_shrinking() or now_ns < self._shrink_ns:
            return
        until_ns = now_ns + SLICE_NS
        waiting_bytes = backlog.bytes + backlog.later_bytes
        has_gone = yield from self._moves.shrink(
            waiting_bytes, lambda: self._clock.monotonic_ns() >= until_ns, may_split=not backlog
        )
        self._shrink_ns = self._clock.monotonic_ns() + (0 if has_gone else PAGES_NS)

    def _is_simple(self) -> bool:
        """Return whether there is one bucket, in memory, and nothing waits."""
        stores = self._stores
        return len(stores.buckets) == 1 and not self._backlog and stores.direct()
