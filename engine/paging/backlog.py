"""Input of a paged operator that waits, and the sweeps in which every bucket works its share of it off.

A sweep goes on in slices of the worker loop's time, and as far as a checkpoint that is written lets buckets be used.
What comes meanwhile waits for the next one, but for rows of buckets that are about to move. Called by `paged_operator`.
"""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import cast

import pyarrow as pa

from penstock.engine.core.contract import Clock, Emission
from penstock.engine.core.elements import END_OF_TIME_US, Batch, Watermark
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_moves import BucketMoves
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.bucket_sweep import BucketSweep, BucketTurn
from penstock.engine.paging.key_ranges import Span
from penstock.engine.paging.memory_bound import FreeMemory
from penstock.engine.paging.row_bound import Growth
from penstock.engine.paging.waiting import WaitingInput, joined
from penstock.model.errors import BugError


class Backlog:
    """The input that waits for the buckets of one operator instance; true if there is any.

    ``swept_us`` is the watermark that all of them have come to, ``passed_us`` the one that they have passed on, and
    ``released_us`` that one from the end of a sweep until someone has taken it. ``since_ns`` is when waiting began.
    """

    def __init__(
        self,
        stores: BucketStores,
        moves: BucketMoves,
        clock: Clock,
        minds_watermarks: bool,
        swept_us: int,
        passed_us: int,
    ) -> None:
        """Nothing waits; time has come as far as is said."""
        self._stores = stores
        self._moves = moves
        self._clock = clock
        self._minds_watermarks = minds_watermarks
        self.growth = Growth()
        self.swept_us = swept_us
        self.passed_us = passed_us
        self.released_us: int | None = None
        self.since_ns = 0
        self._waiting = WaitingInput(0)
        self._later: list[tuple[int, Batch] | Watermark] = []
        """Input that came while a sweep was under way, in order: it is to wait for the next one."""
        self.later_bytes = self.later_rows = 0
        self.under_way = False
        """Whether a sweep is under way."""
        # What is left of it.
        self._unswept = BucketSweep()
        self._fetched: Bucket | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def bytes(self) -> int:
        """Bytes of the rows that the next sweep, or the one under way, works off."""
        return self._waiting.bytes

    @property
    def is_full(self) -> bool:
        """True if as much waits as may."""
        return self._waiting.bytes >= self._stores.options.waiting_bytes

    @property
    def has_ended(self) -> bool:
        """True if the end of time waits."""
        return self._waiting.watermark_us == END_OF_TIME_US

    @property
    def latest_us(self) -> int:
        """The last watermark that came, be it that it waits."""
        waiting_us = self._waiting.watermark_us
        times = [item.time_us for item in self._later if isinstance(item, Watermark)]
        return times[-1] if times else self.swept_us if waiting_us is None else waiting_us

    def add(self, port: int, batch: Batch) -> None:
        """Let rows wait."""
        if self.under_way:
            self._add_later(port, batch)
        else:
            self._begin_waiting()
            self._waiting.add(port, batch, self._stores.places(port, batch.rows, self._stores.buckets))

    def add_watermark(self, time_us: int) -> None:
        """Let a watermark wait behind the rows."""
        if self.under_way:
            self._later.append(Watermark(time_us))
        else:
            self._begin_waiting()
            self._waiting.add_watermark(time_us)

    def advance(self, time_us: int, passed_us: int) -> None:
        """The only bucket has come to this time, and passed on so much: nothing waits."""
        self.swept_us = time_us
        self.passed_us = max(self.passed_us, passed_us)

    def may_go_on(self) -> bool:
        """Return whether a checkpoint that is written lets any bucket of the sweep take its turn, or none is left."""
        room = self._stores.room()
        return not self._unswept or any(self._may_begin(turn, room) for turn in self._unswept)

    def needed_bytes(self, bucket: Bucket) -> int:
        """Return what has to find room for a bucket to be loaded: itself, and all that waits."""
        return self._moves.needed_bytes(bucket, self._waiting.bytes)

    def feed(self, bucket: Bucket, port: int, piece: Batch) -> Iterator[Emission]:
        """Let a bucket in memory work rows off, and note what they add to it."""
        before_bytes = bucket.bytes
        bucket.touch()
        yield from bucket.operator.process(port, piece)
        if piece.rows.num_rows:
            self.growth.note(piece.rows.num_rows, bucket.bytes - before_bytes)

    def sweep(self, slice_ns: int | None = None) -> Iterator[Emission]:
        """Let every bucket work its share off, those in memory first; after ``slice_ns`` the rest is for later.

        So is what a checkpoint that is written holds back; and in slices what came in the middle of the sweep: timers
        have their turn between two of them, however much comes.

        Only a bucket that has done so may be cut: the shares of the others are by their places.
        """
        until_ns = None if slice_ns is None else self._clock.monotonic_ns() + slice_ns
        while self._waiting:
            self._begin_sweep()
            yield from self._take_turns(until_ns)
            if self._unswept:
                return
            self._end_sweep()
            if until_ns is not None:
                return

    def settle(self, spans: Sequence[Span]) -> Iterator[Emission]:
        """Let buckets that reach into ``spans`` work off all that has come; what waits for others waits on.

        No checkpoint holds buckets back. From here on a sweep is under way, so that buckets may be cut: what comes is
        dealt out to those that there are when it ends.
        """
        if not self._waiting:
            return

        def reaches(bucket: Bucket) -> bool:
            return not bucket.awaited and any(bucket.span & span is not None for span in spans)

        self._begin_sweep()
        yield from self._take_turns(None, reaches)
        if self._later and (buckets := [bucket for bucket in self._stores.buckets if reaches(bucket)]):
            self._bring_forward(buckets)
            yield from self._take_turns(None, reaches)
        if any(reaches(turn.bucket) for turn in self._unswept):
            raise BugError("rows wait for a bucket that is about to be cut; please report it.")

    def _begin_sweep(self) -> None:
        if not self.under_way:
            self.under_way = True
            self._unswept.begin(self._stores.buckets, self._waiting.counts().tolist())

    def _bring_forward(self, buckets: Sequence[Bucket]) -> None:
        """Let what was to wait for the next sweep wait for this one, as far as it is these buckets'."""
        later, self._later, self.later_bytes, self.later_rows = self._later, [], 0, 0
        parts = WaitingInput(len(buckets))
        if self._waiting.watermark_us is not None:
            parts.add_watermark(self._waiting.watermark_us)
        for item in later:
            if isinstance(item, Watermark):
                parts.add_watermark(item.time_us)
                self._later.append(item)
                continue
            port, batch = item
            inside = self._stores.within(port, batch.rows, buckets)
            if not inside.any():
                self._add_later(port, batch)
                continue
            rows = batch.rows if inside.all() else batch.rows.filter(pa.array(inside))
            parts.add(port, batch.with_rows(rows), self._stores.places(port, rows, buckets))
            if rows.num_rows < len(inside):
                self._add_later(port, batch.with_rows(batch.rows.filter(pa.array(~inside))))
        first, counts = self._waiting.add_parts(parts), parts.counts().tolist()
        turns = (BucketTurn(first + place, bucket, counts[place]) for place, bucket in enumerate(buckets))
        self._unswept.append(turn for turn in turns if turn.rows)

    def _take_turns(
        self, until_ns: int | None, chosen: Callable[[Bucket], bool] = lambda bucket: True
    ) -> Iterator[Emission]:
        """Let chosen buckets take their turns, as far as a checkpoint that is written lets them, until it is late."""
        waiting = self._waiting

        def may_begin(turn: BucketTurn, room: FreeMemory) -> bool:
            return chosen(turn.bucket) and self._may_begin(turn, room)

        while self._unswept.choose(partial(may_begin, room=self._stores.room())):
            turn = self._unswept.first
            bucket = turn.bucket
            if self._concerns(turn):
                if not self._stores.use(bucket):
                    return
                if self._fetched is not bucket:
                    self._stores.accessed.visit(bucket, turn.rows)
                if not bucket.is_resident:
                    yield from self._moves.load(bucket, waiting.bytes)
                    if self._is_over(until_ns):
                        self._fetched = bucket
                        return
                self._fetched = None
                has_another_turn = yield from self._work_off(turn, waiting)
                if has_another_turn:
                    # That turn is by the bucket's place, so it stays whole, whatever has been written meanwhile.
                    yield from self._moves.make_room(waiting.bytes)
                else:
                    yield from self._moves.fit(bucket, waiting.bytes)
            self._unswept.end_turn()
            if self._is_over(until_ns):
                return

    def _is_over(self, until_ns: int | None) -> bool:
        return until_ns is not None and self._clock.monotonic_ns() >= until_ns

    def _end_sweep(self) -> None:
        waiting, self.under_way = self._waiting, False
        self._stores.accessed.end_sweep(self._stores.buckets)
        if waiting.watermark_us is not None:
            self.swept_us = waiting.watermark_us
            self.passed_us = max(self.passed_us, self._moves.output_watermark(waiting.watermark_us))
            self.released_us = self.passed_us
        waiting.clear()
        later, self._later, self.later_bytes, self.later_rows = deque(self._later), [], 0, 0
        items = (later.popleft() for _ in range(len(later)))
        # With a budget more may wait than there is room to join.
        is_bound = self._stores.options.held_bytes is not None
        for item in items if is_bound else joined(items, minds_watermarks=self._minds_watermarks):
            if isinstance(item, Watermark):
                self.add_watermark(item.time_us)
            else:
                self.add(*item)

    def _add_later(self, port: int, batch: Batch) -> None:
        self._later.append((port, batch))
        self.later_bytes += int(batch.rows.nbytes)
        self.later_rows += batch.rows.num_rows

    def _work_off(self, turn: BucketTurn, waiting: WaitingInput) -> Generator[Emission, None, bool]:
        """Let a bucket in memory work its share off; if it is cut before it has, its pieces are next with the rest.

        So is the bucket itself if it cannot be cut as a checkpoint is written, and may not grow. Returns whether it is.
        """
        bucket, rows = turn.bucket, turn.rows
        yield from self._moves.advance(bucket, self.swept_us)
        shares = waiting.shares(turn.place, minds_watermarks=self._minds_watermarks)
        for item in shares:
            if isinstance(item, Watermark):
                yield from self._moves.advance(bucket, item.time_us)
                continue
            port, left = item[0], cast(Batch | None, item[1])
            while left is not None:
                piece, left = self.growth.cut(left, self._stores.options)
                yield from self.feed(bucket, port, piece)
                rows -= piece.rows.num_rows
                too_large = self._stores.is_too_large(bucket)
                if rows and (too_large or self._stores.is_full()):
                    rest = shares if left is None else itertools.chain([(port, left)], shares)
                    pieces = [bucket]
                    if too_large:
                        pieces = yield from self._moves.split(bucket, self.growth.bytes_of(rows))
                    self._share_out(rest, pieces, waiting)
                    return not too_large
        return False

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

    def _may_begin(self, turn: BucketTurn, room: FreeMemory) -> bool:
        """Return whether a checkpoint that is written lets a bucket take its turn now."""
        bucket = turn.bucket
        return not self._concerns(turn) or self._stores.may_use(bucket, self.needed_bytes(bucket), room)

    def _concerns(self, turn: BucketTurn) -> bool:
        """Return whether something that waits is a bucket's: rows, or a watermark that it waits for."""
        if turn.rows:
            return True
        until_us, due_us = self._waiting.watermark_us, turn.bucket.due_us()
        return until_us is not None and due_us is not None and due_us <= until_us

    def _begin_waiting(self) -> None:
        if not self._waiting:
            self._waiting = WaitingInput(len(self._stores.buckets))
            self.since_ns = self._clock.monotonic_ns()
