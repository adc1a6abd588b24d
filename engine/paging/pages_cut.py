"""The contribution of an operator that has paged to a checkpoint: stored buckets, files of its page store."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.bucket_writing import EncodedBucket, encode_bucket, forget
from penstock.engine.paging.frozen_buckets import Keeping
from penstock.model.errors import CheckpointError
from penstock.model.failpoints import failpoint


class PagesCut:
    """Buckets frozen at a barrier until `write` has stored them, or `release` gives them up."""

    def __init__(self, stores: BucketStores) -> None:
        """Freeze the buckets that are not stored."""
        self._stores = stores
        unstored = [item for item in stores.buckets if item.held is not None and (item.dirty or not item.stored)]
        self._frozen = stores.freeze(unstored, _InPages(stores))
        self._released = False
        self._written = False

    def write(self, directory: Path) -> list[Path]:
        """Store the frozen buckets and make ``directory``, which must not exist, a copy of the page store.

        Runs beside the worker loop, and releases the cut unless it raises; a bucket may be used before, once it is
        encoded. Returns the files in the directory. A cut of an instance that has ended may be written again, for every
        later checkpoint, whether it raised or not.

        Raises:
            CheckpointError: the operator was closed, or the cut released, before.
        """
        with self._stores.writing():
            if self._released and not self._written:
                raise CheckpointError("a checkpoint was given up before its pages were written.")
            self._frozen.write()
            names = self._stores.copy_to(self._stores.pages, directory)
            self._written = True
        # The copy is of its own: what is uploaded of it keeps nobody waiting.
        self.release()
        failpoint("pages.cut.written")
        return [directory / name for name in names]

    def release(self) -> None:
        """Let the buckets be used, stored and cut again; a second call does nothing."""
        if not self._released:
            self._released = True
            self._stores.release(self._frozen)


class _InPages(Keeping[EncodedBucket]):
    """Buckets are kept in the page store of their operator."""

    in_pages = True
    # Each gives its memory back once it is stored.
    at_once = 1

    def __init__(self, stores: BucketStores) -> None:
        self._stores = stores

    def encode(self, bucket: Bucket, notes: Notes) -> EncodedBucket:
        return encode_bucket(bucket, notes)

    def put(self, encoded: Sequence[tuple[Bucket, EncodedBucket]]) -> None:
        for bucket, item in encoded:
            failpoint("pages.bucket.before_write")
            item.put(self._stores.pages)
            self._stores.unchecked.add(bucket.span.low)

    def forget(self, bucket: Bucket, encoded: EncodedBucket) -> None:
        forget(bucket, encoded)

    def encoding(self) -> AbstractContextManager[Any]:
        # All of `PagesCut.write` keeps the operator open.
        return nullcontext()
