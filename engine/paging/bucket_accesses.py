"""The account of accesses to the buckets of an operator instance. Kept by `bucket_store`."""

import numpy as np

from penstock.engine.core.contract import Clock
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_reuse import BucketReuse, spread_below
from penstock.model.columns import Floats

ALONE_NS = 250_000_000
"""After so long it is looked again how large a bucket that is alone has become."""


class BucketAccesses:
    """Rows that reached buckets: how many found theirs in memory, how far back each was used, how long others took."""

    def __init__(self, clock: Clock) -> None:
        """Nothing was used."""
        self.hits = self.misses = 0
        self.moved_ns = 0
        """How long it took to bring buckets in, and to let those go that were in their way, but for stalled writes."""
        self._clock = clock
        self._uses = 0
        self._reuse = BucketReuse()
        self._visits: list[tuple[int, int]] = []
        self._before: dict[int, int] = {}
        self._due_ns = 0
        self._taken = 0

    def alone(self, bucket: Bucket, rows: int) -> None:
        """Note that so many rows are about to reach the only bucket, which is in memory."""
        self._use(bucket, rows)
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + ALONE_NS
            self._take_alone(bucket.bytes)

    def visit(self, bucket: Bucket, rows: int) -> None:
        """Note that so many rows are about to reach a bucket whose turn it is in a sweep."""
        self._visits.append((bucket.used, rows))
        self._before.setdefault(id(bucket), bucket.used)
        self._use(bucket, rows)
        bucket.visited_bytes = bucket.bytes if bucket.is_resident else max(bucket.paged_bytes, bucket.needed_bytes)

    def use(self, bucket: Bucket) -> None:
        """Note that a bucket is about to be used for no row."""
        self._use(bucket, 0)

    def end_sweep(self, buckets: list[Bucket]) -> None:
        """Take in the turns of a sweep that has ended; ``buckets`` are all of them."""
        visits, self._visits = self._visits, []
        before, self._before = self._before, {}
        if not visits:
            return
        sizes = [bucket.visited_bytes for bucket in buckets]
        rows = [count for _, count in visits]
        swept = sum(rows)
        self._take_alone(sum(sizes), swept)
        uses = [before.get(id(bucket), bucket.used) for bucket in buckets]
        self._reuse.swept(uses, sizes, [use for use, _ in visits], rows, self._uses)
        self._taken += swept

    def reuse(self, held_bytes: int) -> Floats:
        """Return all accesses by `REUSE_BOUNDS`; from any thread, then they may be a batch apart.

        Those of a bucket that is alone lie evenly within what it takes: that much of it is cut off where memory ends.
        """
        counted = self._reuse.counted
        rest = max(0, self.hits + self.misses - self._taken)
        return counted + spread_below(rest, held_bytes) if rest else counted

    def _use(self, bucket: Bucket, rows: int) -> None:
        self._uses += 1
        bucket.used = self._uses
        if bucket.is_resident:
            self.hits += rows
        else:
            self.misses += rows

    def _take_alone(self, size_bytes: int, but: int = 0) -> None:
        """Take in the rows that a bucket has had alone, and not ``but`` so many of a sweep."""
        rows = self.hits + self.misses - self._taken - but
        if rows > 0:
            self._reuse.add(np.array([float(rows)]), np.zeros(1), np.array([float(size_bytes)]))
            self._taken += rows
