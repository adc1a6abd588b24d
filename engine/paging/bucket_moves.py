"""Brings buckets into memory and forward in time, cuts those that grow too large, lets go of what does not fit.

Operators emit what they keep for a quiet moment before that, so each step yields emissions. Called by `paged_operator`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator

from penstock.engine.core.contract import Emission
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_cutting import BucketCutter
from penstock.engine.paging.bucket_store import BucketStores


class BucketMoves:
    """The mover of one operator instance's buckets."""

    def __init__(self, stores: BucketStores) -> None:
        """Move these."""
        self._stores = stores
        self.cutter = BucketCutter(stores)

    def advance(self, bucket: Bucket, time_us: int) -> Iterable[Emission]:
        """Bring a bucket in memory to a watermark, unless it has come so far."""
        if time_us <= bucket.watermark_us:
            return ()
        bucket.watermark_us = time_us
        bucket.touch()
        return bucket.operator.on_watermark(time_us)

    def output_watermark(self, time_us: int) -> int:
        """Return the watermark that an operator passes on; it depends on its settings and the time alone."""
        resident = next((bucket for bucket in self._stores.buckets if bucket.is_resident), None)
        if resident is None:
            outside = next((bucket for bucket in self._stores.buckets if not bucket.awaited), None)
            if outside is None:
                return self.cutter.output_watermark(time_us)
            resident = outside
            self._stores.load(resident)
        return resident.operator.output_watermark(time_us)

    def load(self, bucket: Bucket, waiting_bytes: int = 0) -> Iterator[Emission]:
        """Bring a bucket into memory, with room for so many bytes of rows that wait for it."""
        if not bucket.is_resident:
            yield from self.make_room(self.needed_bytes(bucket, waiting_bytes))
            self._stores.load(bucket)

    def needed_bytes(self, bucket: Bucket, waiting_bytes: int) -> int:
        """Return how much room a bucket that is outside, and rows that wait for it, take in memory."""
        return max(bucket.paged_bytes, bucket.needed_bytes) + waiting_bytes

    def fit(self, used: Bucket, waiting_bytes: int = 0, added_bytes: int = 0) -> Iterator[Emission]:
        """Cut the bucket that was used if it has grown too large, and let go of what does not fit."""
        if self._stores.is_too_large(used):
            yield from self.split(used, added_bytes)
        yield from self.make_room(waiting_bytes)

    def split(self, bucket: Bucket, added_bytes: int = 0) -> Generator[Emission, None, list[Bucket]]:
        """Cut a bucket in memory into several that ``added_bytes`` more fit into; return these, sorted."""
        yield from bucket.operator.on_barrier(0)
        return self.cutter.split(bucket, added_bytes)

    def make_room(self, needed_bytes: int) -> Iterator[Emission]:
        """Let buckets go until so much fits besides them, as far as that goes."""
        for bucket in self._stores.to_evict(needed_bytes):
            if bucket.dirty:
                yield from bucket.operator.on_barrier(0)
            self._stores.evict(bucket)

    def shrink(
        self, waiting_bytes: int, is_over: Callable[[], bool], *, may_split: bool
    ) -> Generator[Emission, None, bool]:
        """Let buckets go that are above a budget that was lowered, until it ``is_over`` or the next would have to wait.

        One that is alone is halved if it ``may_split``. Memory is bound by what is left then, with so many bytes of
        rows that wait. Returns whether something has gone.
        """
        stores, bound, has_gone = self._stores, self._stores.bound, False
        limit = bound.goal.held_bytes
        # Whoever looks at a bucket next makes room for the rows that wait, too, and all at once.
        while limit is not None and stores.held_bytes() + waiting_bytes > limit:
            oldest = next(iter(stores.evictable()), None)
            last = max((item for item in stores.buckets if item.is_resident), key=lambda item: item.used, default=None)
            if oldest is not None:
                if not stores.pages.has_room():
                    break
                if oldest.dirty:
                    yield from oldest.operator.on_barrier(0)
                stores.evict(oldest)
            elif last is not None and stores.is_too_large(last):
                if not may_split:
                    break
                yield from last.operator.on_barrier(0)
                before_bytes = last.bytes
                self.cutter.put_in(*self.cutter.take_out(last), last.span.cut(2), last.used, before_bytes)
            else:
                # What is left must stay.
                limit = None
                break
            has_gone = True
            if is_over():
                break
        is_done = limit is None or stores.held_bytes() + waiting_bytes <= limit
        if is_done and waiting_bytes <= bound.goal.waiting_bytes:
            bound.reach()
        else:
            bound.lower(stores.held_bytes(), waiting_bytes)
        return has_gone
