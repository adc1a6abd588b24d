"""What of a bucket in memory has to be stored: all of it, or only the rows that its logs have got since.

`bucket_store` calls it when a bucket is let go, `pages_cut` at a checkpoint.
"""

import pyarrow as pa

from penstock.engine.operators.contract import Notes
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_pages import append_image, write_image
from penstock.state.image import Part
from penstock.state.page_store import PageStore
from penstock.state.store import StateStore

MOST_SEGMENTS = 16
"""After so many images a bucket is written as one again, which takes up what is between them."""


def write_bucket(pages: PageStore, bucket: Bucket, notes: Notes) -> int:
    """Store what a bucket has in memory, and note that; return the bytes of its images."""
    assert bucket.held is not None
    store, before = bucket.held.store, bucket.log_rows
    rows, changes = store.rows_of_logs(), store.changes()
    if bucket.stored and changes is not None and changes == bucket.stored_changes:
        # It was only read: nothing but its notes can differ.
        bucket.segments = append_image(pages, bucket.span, Part({}), notes, bucket.segments)
    elif before is None or rows is None or before.keys() != rows.keys() or len(bucket.segments) >= MOST_SEGMENTS:
        bucket.segments = write_image(pages, bucket.span, part_of(store), notes, bucket.segments)
    else:
        batches: dict[str, list[pa.RecordBatch]] = {}
        for name, appended in store.appended(before):
            batches.setdefault(name, []).append(appended)
        bucket.segments = append_image(pages, bucket.span, Part(batches), notes, bucket.segments)
    bucket.log_rows, bucket.stored_changes = rows, changes
    bucket.stored, bucket.dirty = True, False
    bucket.paged_bytes = sum(bucket.segments)
    return bucket.paged_bytes


def part_of(store: StateStore) -> Part | None:
    """Return what a store holds, None if nothing was ever opened in it."""
    batches: dict[str, list[pa.RecordBatch]] = {}
    for name, rows in store.contents():
        batches.setdefault(name, []).append(rows)
    return Part(batches) if batches else None
