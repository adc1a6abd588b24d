"""The contribution of a paged operator to a checkpoint: buckets that another thread stores, files of its page store."""

from dataclasses import dataclass, field
from pathlib import Path

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket_store import BucketStores
from penstock.model.errors import CheckpointError
from penstock.model.failpoints import failpoint
from penstock.state.tables.image import StoreDump


class PagesCut:
    """Buckets frozen at a barrier until `write` has stored them, or `release` gives them up."""

    def __init__(self, stores: BucketStores) -> None:
        """Freeze the buckets that are not stored."""
        self._stores = stores
        self._frozen = stores.freeze()
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
        with self._stores.writing() as pages:
            if self._released and not self._written:
                raise CheckpointError("a checkpoint was given up before its pages were written.")
            self._frozen.write(pages)
            names = self._stores.copy_to(pages, directory)
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


@dataclass(frozen=True, slots=True)
class PagedCut:
    """A paged operator at the cut: the part and notes of its only bucket as long as that is small, else ``pages``."""

    notes: Notes = field(default_factory=dict)
    part: StoreDump | None = None
    pages: PagesCut | None = None
