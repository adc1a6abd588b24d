"""What a paged operator contributes to a checkpoint: buckets that another thread stores, files of its page store."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.bucket_writing import EncodedBucket, encode_bucket, forget
from penstock.model.errors import CheckpointError
from penstock.model.failpoints import failpoint
from penstock.state.stores.page_store import PageStore
from penstock.state.tables.image import Part


class PagesCut:
    """Buckets frozen at a barrier until `write` has stored them, or `release` gives them up."""

    def __init__(self, stores: BucketStores) -> None:
        """Freeze all buckets, and note which are not stored."""
        self._stores = stores
        self._unstored: Sequence[Bucket] = stores.freeze()
        self._released = False
        self._written = False
        self._notes = [bucket.notes() for bucket in self._unstored]

    def write(self, directory: Path) -> list[Path]:
        """Store the frozen buckets and make ``directory``, which must not exist, a copy of the page store.

        Runs beside the worker loop, and releases the cut. Returns the files in the directory. A cut of an instance that
        has ended may be written again, for every later checkpoint.

        Raises:
            CheckpointError: the operator was closed, or the cut released, before.
        """
        with self._stores.writing() as pages:
            if self._released and not self._written:
                raise CheckpointError("a checkpoint was given up before its pages were written.")
            if self._stores.options.budget_bytes is None:
                names = self._write_behind(pages, directory)
            else:
                # Twice what is in memory might not fit the budget.
                for bucket, notes in zip(self._unstored, self._notes, strict=True):
                    _put(pages, bucket, encode_bucket(bucket, notes))
                names = self._stores.snapshot(pages, directory, [bucket.span.low for bucket in self._unstored])
            self._written = True
        # The copy is of its own: what is uploaded of it keeps nobody waiting.
        self.release()
        failpoint("pages.cut.written")
        return [directory / name for name in names]

    def _write_behind(self, pages: PageStore, directory: Path) -> list[str]:
        """Encode the frozen buckets and thaw them, which takes a fraction of the time of storing them; then store."""
        encoded = deque(
            (bucket, encode_bucket(bucket, notes)) for bucket, notes in zip(self._unstored, self._notes, strict=True)
        )
        lows = [bucket.span.low for bucket, _ in encoded]
        self._released, self._unstored, self._notes = True, (), []
        self._stores.thaw(writing_out=True)
        try:
            while encoded:
                _put(pages, *encoded.popleft())
            return self._stores.snapshot(pages, directory, lows)
        finally:
            for bucket, image in encoded:
                forget(bucket, image)
            self._stores.thaw()

    def release(self) -> None:
        """Let the buckets be used again; a second call does nothing."""
        if not self._released:
            self._released, self._unstored, self._notes = True, (), []
            self._stores.thaw()


def _put(pages: PageStore, bucket: Bucket, image: EncodedBucket) -> None:
    try:
        failpoint("pages.bucket.before_write")
        image.put(pages)
    except BaseException:
        forget(bucket, image)
        raise


@dataclass(frozen=True, slots=True)
class PagedCut:
    """A paged operator at the cut: the part and notes of its only bucket as long as that is small, else ``pages``."""

    notes: Notes = field(default_factory=dict)
    part: Part | None = None
    pages: PagesCut | None = None
