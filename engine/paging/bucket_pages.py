"""A bucket's state as pages of a page store, and back: an image file (`part_files`) cut into pages of 64 KB.

Keys are the bucket's first position and the page's number, both big endian, so that buckets follow each other by key
group and a bucket's pages lie together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.engine.operators.contract import Notes
from penstock.engine.paging.ring import Span
from penstock.engine.part_files import decode_part, encode_part
from penstock.model.errors import CheckpointError, StateCorruptionError
from penstock.state.image import Part
from penstock.state.page_store import PageStore

PAGE_BYTES = 64 << 10


class BucketHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the first page of a bucket says of it; ``image_bytes`` is the length of its image."""

    low: int
    high: int
    image_bytes: int
    notes: dict[str, Any]

    @property
    def span(self) -> Span:
        """The bucket's positions."""
        return Span(self.low, self.high)


@dataclass(frozen=True, slots=True)
class BucketImage:
    """What a bucket held: its tables and logs (None: nothing), and its operator's notes."""

    part: Part | None
    notes: Notes


def write_bucket(pages: PageStore, span: Span, part: Part | None, notes: Notes, before_bytes: int = 0) -> int:
    """Store a bucket in the place of what was stored of it, an image of ``before_bytes``; return the image's bytes."""
    data = b"" if part is None else encode_part(part)
    header = BucketHeader(span.low, span.high, len(data), dict(notes))
    view = memoryview(data)
    cut = [bytes(view[at : at + PAGE_BYTES]) for at in range(0, len(data), PAGE_BYTES)]
    keyed = [(_key(span.low, 1 + number), page) for number, page in enumerate(cut)]
    if len(data) < before_bytes:
        pages.delete_range(_key(span.low, 1 + len(cut)), _key(span.low + 1, 0))
    pages.put_many([(_key(span.low, 0), msgspec.msgpack.encode(header)), *keyed])
    return len(data)


def read_bucket(pages: PageStore, low: int) -> BucketImage:
    """Return the bucket that begins at a position.

    Raises:
        StateCorruptionError: it is not there, or not whole.
    """
    found = list(pages.scan(_key(low, 0), _key(low + 1, 0)))
    if not found:
        raise StateCorruptionError(f"the bucket at position {low} is not in its page store.")
    header = _header(found[0][1])
    data = b"".join(page for _, page in found[1:])
    if len(data) != header.image_bytes:
        raise StateCorruptionError(f"the bucket at position {low} has {len(data)} bytes of {header.image_bytes}.")
    try:
        part = decode_part(data, f"the bucket at position {low}") if data else None
    except CheckpointError as error:
        raise StateCorruptionError(str(error)) from error
    return BucketImage(part, header.notes)


def headers(pages: PageStore) -> Iterator[BucketHeader]:
    """Yield the headers of all buckets, by position."""
    low = 0
    while low < 1 << 32:
        found = next(iter(pages.scan(_key(low, 0), _key(1 << 32, 0))), None)
        if found is None:
            return
        header = _header(found[1])
        yield header
        low = header.high


def drop_bucket(pages: PageStore, low: int) -> None:
    """Forget a bucket."""
    pages.delete_range(_key(low, 0), _key(low + 1, 0))


def _header(page: bytes) -> BucketHeader:
    try:
        return msgspec.msgpack.decode(page, type=BucketHeader)
    except (msgspec.DecodeError, ValueError) as error:
        raise StateCorruptionError(f"the first page of a bucket cannot be read: {error}") from None


def _key(low: int, number: int) -> bytes:
    return low.to_bytes(5, "big") + number.to_bytes(4, "big")
