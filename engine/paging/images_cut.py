"""The contribution of an operator whose state is all in memory to a checkpoint: a file for each bucket that changed.

No page store is opened for it: a thread writes each image once, into the file of the checkpoint itself
(docs/decisions/0141-state-in-memory-is-written-as-images.md).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_files import INDEX_FILE, KeptBucket, KeptImage, encode_index
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.bucket_writing import encode_images
from penstock.engine.paging.frozen_buckets import FrozenBuckets, Keeping
from penstock.engine.paging.pages_cut import PagesCut
from penstock.model.errors import CheckpointError, RetryableError
from penstock.model.failpoints import failpoint
from penstock.state.checkpoints.manifest import FileEntry
from penstock.state.checkpoints.uploads import EpochFiles
from penstock.state.tables.image import StoreDump


class ImagesCut:
    """Buckets frozen at a barrier until each is encoded, or `release` gives them up."""

    def __init__(self, stores: BucketStores) -> None:
        """Freeze the buckets that have changed."""
        self._stores = stores
        self._freeze()
        self._begun = False
        self._written = False
        self._released = False

    def write(self, files: EpochFiles) -> tuple[FileEntry, ...]:
        """Bring what has changed to the files of an epoch, and name what has not; return all files.

        Runs beside the worker loop, and releases the cut unless it raises; a bucket may be used before, once it is
        encoded. A cut of an instance that has ended may be written again, for every later checkpoint, whether it raised
        or not.

        Raises:
            CheckpointError: the operator was closed, or the cut released, before.
            RetryableError: the storage failed, or has lost a file of an earlier checkpoint.
        """
        with self._stores.writing():
            if self._released and not self._written:
                raise CheckpointError("a checkpoint was given up before its buckets were written.")
            if self._begun:
                # The instance has ended: buckets are as they were, and what of them is safe is named again.
                self._stores.release(self._frozen)
                self._released = False
                self._freeze()
            self._begun = True
        self._as_files.files = files
        self._frozen.write()
        if self._released:
            raise CheckpointError("a checkpoint was given up while its buckets were written.")
        kept = [(bucket, self._as_files.kept[id(bucket)], notes) for bucket, notes in self._buckets]
        images = [image for _, item, _ in kept for image in item.images]
        entries = self._named([image for image in images if not image.inline], files)
        index = encode_index((bucket.span, item, notes) for bucket, item, notes in kept)
        entries.append(files.add(INDEX_FILE, index))
        for image in images:
            image.data = None
        self._written = True
        self.release()
        failpoint("images.cut.written")
        return tuple(entries)

    def release(self) -> None:
        """Let the buckets be used, stored and cut again; a second call does nothing."""
        if not self._released:
            self._released = True
            self._stores.release(self._frozen)

    def _freeze(self) -> None:
        # Those that were never in memory hold nothing.
        held = [bucket for bucket in self._stores.buckets if bucket.held is not None]
        assert not self._stores.has_pages
        self._buckets: list[tuple[Bucket, Notes]] = [(bucket, bucket.notes()) for bucket in held]
        self._as_files = _AsFiles(self._stores)
        changed = []
        for bucket in held:
            kept = bucket.kept
            if bucket.is_kept and kept is not None and kept.is_safe:
                self._as_files.kept[id(bucket)] = kept
            else:
                changed.append(bucket)
        self._frozen: FrozenBuckets[KeptBucket] = self._stores.freeze(changed, self._as_files)

    def _named(self, images: Sequence[KeptImage], files: EpochFiles) -> list[FileEntry]:
        """Return the files of images, which an epoch before may have brought there."""
        entries, gone = [], []
        for image in images:
            entry = image.entry
            assert entry is not None
            if entry.stored not in self._as_files.added and not files.reuse(entry):
                image.entry = None
                gone.append(entry.stored)
            entries.append(entry)
        if gone:
            raise RetryableError(
                f"{len(gone)} files of an earlier checkpoint are gone, one is {gone[0]!r}; the next checkpoint "
                "writes what was in them again."
            )
        return entries


class _AsFiles(Keeping[KeptBucket]):
    """Buckets are kept as files of the checkpoint; ``kept`` is what it has of each, ``added`` are those it brought."""

    in_pages = False
    at_once = 8

    def __init__(self, stores: BucketStores) -> None:
        self.kept: dict[int, KeptBucket] = {}
        self.added: set[str] = set()
        self.files: EpochFiles | None = None
        self._stores = stores

    def encode(self, bucket: Bucket, notes: Notes) -> KeptBucket:
        kept = self.kept[id(bucket)] = encode_images(bucket)
        return kept

    def put(self, encoded: Sequence[tuple[Bucket, KeptBucket]]) -> None:
        assert self.files is not None
        images, contents = [], []
        for _, item in encoded:
            failpoint("images.bucket.before_write")
            if len(item.images) == 1 and item.bytes <= self._stores.options.inline_bytes:
                # It is written with the index, and again by the next checkpoint: a file of its own takes as long to
                # sync.
                item.images[0].inline = item.images[0].entry is None
                continue
            for image in item.images:
                # A release may forget it meanwhile.
                data = image.data
                if data is not None:
                    images.append(image)
                    contents.append((image.name, memoryview(data)))
        for image, entry in zip(images, self.files.add_all(contents), strict=True):
            image.entry, image.data = entry, None
            self.added.add(entry.stored)

    def forget(self, bucket: Bucket, encoded: KeptBucket) -> None:
        for image in encoded.images:
            image.data = None

    def encoding(self) -> AbstractContextManager[Any]:
        return self._stores.writing()


@dataclass(frozen=True, slots=True)
class PagedCut:
    """A paged operator at the cut: the part and notes of its only bucket as long as that is small, else ``buckets``."""

    notes: Notes = field(default_factory=dict)
    part: StoreDump | None = None
    buckets: PagesCut | ImagesCut | None = None
