"""Input of a paged operator that waits: batches sorted by bucket, and the watermarks between them, in order.

Each bucket works its share off when it is in memory; what all have worked off is let go. Called by `paged_operator`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.elements import Batch, Watermark
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import read_only

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one input by bucket: those of bucket b from ``bounds[b]`` to ``bounds[b + 1]``, in order of arrival."""

    port: int
    batch: Batch
    bounds: Ints
    bytes: int


class WaitingInput:
    """The input waiting for ``buckets`` buckets, all of which work it off together: `shares` of each, then `clear`."""

    def __init__(self, buckets: int) -> None:
        """Begin with nothing."""
        self.buckets = buckets
        self.bytes = 0
        self.rows = 0
        self.watermark_us: int | None = None
        """The last watermark that waits."""
        self._entries: list[_Rows | int] = []
        self._parts: list[tuple[WaitingInput, int]] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, port: int, batch: Batch, bucket_of_row: NDArray[np.int64]) -> None:
        """Let a batch wait; bucket_of_row[i] in [0, buckets) is where row i belongs."""
        order, bounds = by_bucket(bucket_of_row, self.buckets)
        rows = batch.rows.take(pa.array(order))
        entry = _Rows(port, batch.with_rows(rows), bounds, int(rows.nbytes) + bounds.nbytes)
        self._entries.append(entry)
        self.bytes += entry.bytes
        self.rows += rows.num_rows

    def add_watermark(self, time_us: int) -> None:
        """Let a watermark wait behind the rows before it; one that nothing separates from the last takes its place."""
        if self._entries and isinstance(self._entries[-1], int):
            self._entries.pop()
        self._entries.append(time_us)
        self.watermark_us = time_us

    def add_parts(self, parts: "WaitingInput") -> int:
        """Let what a bucket had left when it was cut wait for its pieces; return the place of the first of these."""
        first = self.buckets + len(self._parts)
        self._parts += [(parts, place) for place in range(parts.buckets)]
        self.bytes += parts.bytes
        return first

    def counts(self) -> Ints:
        """Return how many rows wait for each bucket."""
        counts = np.zeros(self.buckets, np.int64)
        for entry in self._entries:
            if isinstance(entry, _Rows):
                counts += np.diff(entry.bounds)
        return counts

    def shares(self, bucket: int, *, minds_watermarks: bool) -> Iterator[tuple[int, Batch] | Watermark]:
        """Yield what a bucket has to work off: batches with their ports, and watermarks.

        Of watermarks that nothing of the bucket's lies between only the last comes. Where the operator does not mind
        them, batches of one port that follow each other come joined, and the watermark behind all rows.
        """
        if bucket >= self.buckets:
            parts, place = self._parts[bucket - self.buckets]
            yield from parts.shares(place, minds_watermarks=minds_watermarks)
            return
        yield from joined(self._items(bucket), minds_watermarks=minds_watermarks)

    def _items(self, bucket: int) -> Iterator[tuple[int, Batch] | Watermark]:
        for entry in self._entries:
            if isinstance(entry, int):
                yield Watermark(entry)
                continue
            begin, end = int(entry.bounds[bucket]), int(entry.bounds[bucket + 1])
            if begin < end:
                yield entry.port, entry.batch.with_rows(entry.batch.rows.slice(begin, end - begin))

    def clear(self) -> None:
        """Let everything go: all buckets have worked it off."""
        self._entries.clear()
        self._parts.clear()
        self.bytes = self.rows = 0
        self.watermark_us = None


def joined(
    items: Iterable[tuple[int, Batch] | Watermark], *, minds_watermarks: bool
) -> Iterator[tuple[int, Batch] | Watermark]:
    """Yield batches with their ports and watermarks as `WaitingInput.shares` does, joined where they may be."""
    port, run = 0, list[Batch]()
    held: Watermark | None = None
    for item in items:
        if isinstance(item, Watermark):
            held = item
            continue
        between = held is not None and minds_watermarks
        if run and (between or port != item[0] or not _alike(run[-1], item[1])):
            yield port, _together(run)
            run = []
        if between and held is not None:
            yield held
            held = None
        port = item[0]
        run.append(item[1])
    if run:
        yield port, _together(run)
    if held is not None:
        yield held


def _alike(one: Batch, other: Batch) -> bool:
    """Return whether rows are of the same rates."""
    return (one.keep, one.branches, one.keys) == (other.keep, other.branches, other.keys)


def _together(run: list[Batch]) -> Batch:
    if len(run) == 1:
        return run[0]
    rows = pa.concat_batches([batch.rows for batch in run])
    ingest_ns = min(batch.ingest_ns for batch in run)
    opposite_us = min(batch.opposite_us for batch in run)
    return replace(run[0], rows=rows, ingest_ns=ingest_ns, opposite_us=opposite_us)


def by_bucket(bucket_of_row: Ints, buckets: int) -> tuple[Ints, Ints]:
    """Return the rows in order of their buckets, and where each bucket begins (one more at the end)."""
    bounds = np.zeros(buckets + 1, np.int64)
    order = np.empty(len(bucket_of_row), np.int64)
    _sort(read_only(bucket_of_row), bounds, order)
    return order, bounds


@jit
def _sort(bucket_of_row: Ints, bounds: Ints, order: Ints) -> None:
    for i in range(bucket_of_row.size):
        bounds[bucket_of_row[i] + 1] += 1
    for bucket in range(1, bounds.size):
        bounds[bucket] += bounds[bucket - 1]
    cursor = bounds.copy()
    for i in range(bucket_of_row.size):
        bucket = bucket_of_row[i]
        order[cursor[bucket]] = i
        cursor[bucket] += 1
