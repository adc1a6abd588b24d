"""A bucket's state as pages of a page store, and back: image files (`part_files`) cut into pages of 64 KB.

Keys are the bucket's first position and the page's number, both big endian, so that buckets follow each other by key
group and a bucket's pages lie together. The first image is followed by others with what was appended to its logs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from penstock.engine.core.contract import Notes
from penstock.engine.paging.key_ranges import Span
from penstock.engine.paging.part_files import decode_part
from penstock.model.errors import CheckpointError, StateCorruptionError
from penstock.state.stores.page_store import PageStore
from penstock.state.tables.image import StoreDump, dump_of

PAGE_BYTES = 64 << 10


class BucketHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The header on the first page of a bucket; ``segments`` are the lengths of its images, in order."""

    low: int
    high: int
    segments: tuple[int, ...]
    notes: dict[str, Any]

    @property
    def image_bytes(self) -> int:
        """The length of all its images."""
        return sum(self.segments)

    @property
    def span(self) -> Span:
        """The bucket's positions."""
        return Span(self.low, self.high)


@dataclass(frozen=True, slots=True)
class BucketImage:
    """The contents of a bucket: its tables and logs (None: nothing), and its operator's notes."""

    part: StoreDump | None
    notes: Notes


def write_image(
    pages: PageStore, span: Span, data: pa.Buffer | None, notes: Notes, before: Sequence[int] = ()
) -> tuple[int, ...]:
    """Store a bucket in the place of images of the lengths ``before``; return the lengths of those that are stored.

    ``data`` is its image as `encode_part` makes it, None if it holds nothing.
    """
    if pages_of(before) > (0 if data is None else _page_count(data.size)):
        pages.delete_range(_key(span.low, 1), _key(span.low + 1, 0))
    return append_image(pages, span, data, notes, ())


def append_image(
    pages: PageStore, span: Span, data: pa.Buffer | None, notes: Notes, before: Sequence[int]
) -> tuple[int, ...]:
    """Store what was appended to the logs of a bucket of which images of the lengths ``before`` are stored.

    Returns the lengths of all its images.
    """
    lengths = image_lengths(data, before)
    header = BucketHeader(span.low, span.high, lengths, dict(notes))
    keyed = [(_key(span.low, 0), msgspec.msgpack.encode(header))]
    if data is not None:
        first, view = 1 + pages_of(before), memoryview(data)
        for number in range(_page_count(data.size)):
            page = bytes(view[number * PAGE_BYTES : (number + 1) * PAGE_BYTES])
            keyed.append((_key(span.low, first + number), page))
    pages.put_many(keyed)
    return lengths


def image_lengths(data: pa.Buffer | None, before: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the lengths of the images of a bucket once another one lies behind those of the lengths ``before``."""
    return tuple(before) if data is None else (*before, data.size)


def pages_of(lengths: Sequence[int]) -> int:
    """Return how many pages images take: each begins with a page of its own."""
    return sum(_page_count(length) for length in lengths)


def read_bucket(pages: PageStore, low: int) -> BucketImage:
    """Return the bucket that begins at a position.

    Raises:
        StateCorruptionError: it is not there, or not whole.
    """
    stored = list(pages.scan(_key(low, 0), _key(low + 1, 0)))
    if not stored:
        raise StateCorruptionError(f"the bucket at position {low} is not in its page store.")
    header = _header(stored[0][1])
    rows: list[tuple[str, pa.RecordBatch]] = []
    at = 1
    for length in header.segments:
        end = at + _page_count(length)
        image = _decoded(b"".join(page for _, page in stored[at:end]), length, low)
        rows += ((name, batch) for name, batches in image.items() for batch in batches)
        at = end
    if at != len(stored):
        raise StateCorruptionError(f"the bucket at position {low} has {len(stored)} pages of {at}.")
    return BucketImage(dump_of(rows), header.notes)


def headers(pages: PageStore) -> Iterator[BucketHeader]:
    """Yield the headers of all buckets, by position."""
    low = 0
    while low < 1 << 32:
        first = next(iter(pages.scan(_key(low, 0), _key(1 << 32, 0))), None)
        if first is None:
            return
        header = _header(first[1])
        yield header
        low = header.high


def bucket_range(low: int) -> tuple[bytes, bytes]:
    """Return the first key of the bucket that begins at a position, and the first behind it."""
    return _key(low, 0), _key(low + 1, 0)


def drop_bucket(pages: PageStore, low: int) -> None:
    """Forget a bucket."""
    pages.delete_range(_key(low, 0), _key(low + 1, 0))


def _decoded(data: bytes, length: int, low: int) -> Mapping[str, Sequence[pa.RecordBatch]]:
    if len(data) != length:
        raise StateCorruptionError(f"the bucket at position {low} has {len(data)} bytes of {length}.")
    try:
        return decode_part(data, f"the bucket at position {low}").batches
    except CheckpointError as error:
        raise StateCorruptionError(str(error)) from error


def _page_count(length: int) -> int:
    return -(-length // PAGE_BYTES)


def _header(page: bytes) -> BucketHeader:
    try:
        return msgspec.msgpack.decode(page, type=BucketHeader)
    except (msgspec.DecodeError, ValueError) as error:
        raise StateCorruptionError(f"the first page of a bucket cannot be read: {error}") from None


def _key(low: int, number: int) -> bytes:
    return low.to_bytes(5, "big") + number.to_bytes(4, "big")
