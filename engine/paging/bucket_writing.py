"""The part of a bucket in memory that has to be stored: all of it, or only the rows added to its logs since.

`bucket_store` calls it when a bucket is let go, `pages_cut` and `images_cut` at a checkpoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_files import KeptBucket, KeptImage, image_name
from penstock.engine.paging.bucket_pages import append_image, image_lengths, pages_of, write_image
from penstock.engine.paging.key_ranges import Span
from penstock.engine.paging.part_files import encode_part
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.stores.page_store import PageStore
from penstock.state.tables.image import StoreDump, dump_of

MOST_SEGMENTS = 16
"""After so many images a bucket is written as one again, which takes up what is between them."""


@dataclass(frozen=True, slots=True)
class EncodedBucket:
    """The part of a bucket to be stored: bytes that share nothing with it, so that it may change meanwhile.

    ``image`` is behind those of the lengths ``before`` if it is ``appended``, else in their place; None: no image.
    """

    span: Span
    notes: Notes
    image: pa.Buffer | None = field(repr=False)
    before: tuple[int, ...]
    appended: bool

    @property
    def bytes(self) -> int:
        """Bytes of memory that the image takes."""
        return 0 if self.image is None else self.image.size

    def put(self, pages: PageStore) -> tuple[int, ...]:
        """Store it; return the lengths of all its images."""
        put = append_image if self.appended else write_image
        return put(pages, self.span, self.image, self.notes, self.before)


def encode_bucket(bucket: Bucket, notes: Notes) -> EncodedBucket:
    """Return what of a bucket in memory is to be stored, and note it as stored: `put` is to follow, or `forget`."""
    assert bucket.held is not None
    store = bucket.held.store
    part, appended = _unwritten(store, bucket.log_rows, bucket.stored_changes, len(bucket.segments))
    image = None if part is None else encode_part(part)
    encoded = EncodedBucket(bucket.span, notes, image, bucket.segments, appended)
    bucket.segments = image_lengths(image, bucket.segments if appended else ())
    bucket.log_rows, bucket.stored_changes = store.rows_of_logs(), store.changes()
    bucket.stored, bucket.dirty = True, False
    bucket.paged_bytes = sum(bucket.segments)
    return encoded


def encode_images(bucket: Bucket) -> KeptBucket:
    """Return a bucket in memory as files of a checkpoint, and note that: those it has, and an image of what is new."""
    assert bucket.held is not None
    store, before = bucket.held.store, bucket.kept
    if before is None or not before.is_safe:
        before = KeptBucket((), 0, None, None)
    part, appended = _unwritten(store, before.log_rows, before.changes, len(before.images))
    images = before.images if appended else ()
    data = None if part is None else encode_part(part)
    if data is not None:
        images = (*images, KeptImage(image_name(bucket.span.low, len(images)), data.size, data))
    kept = KeptBucket(images, 0 if data is None else data.size, store.rows_of_logs(), store.changes())
    bucket.kept, bucket.is_kept = kept, True
    return kept


def forget(bucket: Bucket, encoded: EncodedBucket) -> None:
    """Note that what was encoded of a bucket may not be stored, nor what was before: all of it is to be written."""
    # The longer of both says which pages may be there.
    bucket.segments = max(bucket.segments, encoded.before, key=pages_of)
    bucket.log_rows, bucket.stored_changes = None, None
    bucket.stored, bucket.dirty = False, True


def write_bucket(pages: PageStore, bucket: Bucket, notes: Notes) -> int:
    """Store what a bucket has in memory, and note that; return the bytes of its images."""
    encoded = encode_bucket(bucket, notes)
    try:
        encoded.put(pages)
    except BaseException:
        forget(bucket, encoded)
        raise
    return bucket.paged_bytes


def _unwritten(
    store: MemoryStore, log_rows: Mapping[str, int] | None, changes: int | None, images: int
) -> tuple[StoreDump | None, bool]:
    """Return what of a store is to be written, and whether it is behind the images that are there: else it is all.

    ``log_rows`` and ``changes`` are what the store said when these were made; None if there are none.
    """
    rows, now = store.rows_of_logs(), store.changes()
    if now is not None and now == changes:
        # It was only read: nothing but its notes can differ.
        return None, True
    if log_rows is None or rows is None or log_rows.keys() != rows.keys() or images >= MOST_SEGMENTS:
        # It is encoded at once, while nothing changes it.
        return dump_of(store.contents(shared=True)), False
    return dump_of(store.appended(log_rows)), True
