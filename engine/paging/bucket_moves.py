"""Brings buckets into memory and forward in time, cuts those that grow too large, lets go of what does not fit.

Operators emit what they keep for a quiet moment before that, so each step yields emissions. Called by `paged_operator`.
"""

from collections.abc import Generator, Iterable, Iterator

from penstock.engine.core.contract import Emission
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_store import BucketStores


class BucketMoves:
    """The mover of one operator instance's buckets."""

    def __init__(self, stores: BucketStores) -> None:
        """Move these."""
        self._stores = stores

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
                return self._stores.output_watermark(time_us)
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
        return self._stores.split(bucket, added_bytes)

    def make_room(self, needed_bytes: int) -> Iterator[Emission]:
        """Let buckets go until so much fits besides them, as far as that goes."""
        for bucket in self._stores.to_evict(needed_bytes):
            if bucket.dirty:
                yield from bucket.operator.on_barrier(0)
            self._stores.evict(bucket)
