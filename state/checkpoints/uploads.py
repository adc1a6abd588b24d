"""The files of checkpoints in progress: uploaded by whoever runs instances, unless the repository has them.

A checkpoint repository adds files by it, and so does every other process of its run.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from penstock.state.checkpoints.content_files import ContentFolder, entry_of
from penstock.state.checkpoints.file_holds import FileHolds
from penstock.state.checkpoints.manifest import CheckpointManifest, FileEntry
from penstock.state.checkpoints.results import Traffic
from penstock.state.checkpoints.savepoints import Savepoints
from penstock.state.files.durable_files import DurableFiles, check_name

FILES = "files"


class CheckpointUploads:
    """Files of epochs below a base, added by one process; from any thread.

    An epoch is *in progress* from `begin` or its first file until it is handed over, published or abandoned; meanwhile
    its files stay.
    """

    def __init__(self, files: DurableFiles) -> None:
        """Keep the files; nothing is touched yet."""
        self.files = files
        self._shared = ContentFolder(files, FILES)
        self._savepoints = Savepoints(files)
        self._held = FileHolds()
        self._damaged: set[str] = set()
        self._run = 0
        # Where the files of the checkpoint that was loaded last are: by digest the run that uploaded them.
        self._loaded: dict[str, int] = {}

    def join_run(self, run: int, loaded: Mapping[str, int], damaged: Collection[str] = ()) -> None:
        """Add files as this run (0: none has a lease) from now on, which another process has begun; nothing is touched.

        ``loaded`` has the runs that uploaded the files of the checkpoint that is gone on from (see `uploading_runs`),
        ``damaged`` are the `damaged` files that whoever coordinates knows of.
        """
        self._run, self._loaded = run, dict(loaded)
        self._damaged.update(damaged)

    @property
    def run(self) -> int:
        """The run that files are added as, 0 for none."""
        return self._run

    @property
    def damaged(self) -> frozenset[str]:
        """The stored names of files that were found damaged, and not uploaded again since."""
        return frozenset(self._damaged)

    def begin(self, epoch: int, *, elsewhere: bool = False) -> None:
        """Declare that files of an epoch may be added.

        ``elsewhere``: by other processes, too, which must not have begun; no file is deleted until it is published.
        """
        self._held.begin(epoch, elsewhere=elsewhere)

    def add_traffic(self, epoch: int, traffic: Traffic) -> None:
        """Count files of an epoch in progress that another process has added."""
        self._held.add_traffic(epoch, traffic)

    def hand_over(self, epoch: int) -> Traffic:
        """End the progress of this epoch and of earlier ones here; whoever coordinates has begun it, and goes on.

        Returns the files of this epoch that were added here, for `add_traffic` there.
        """
        return self._held.release_through(epoch)

    def add_file(self, epoch: int, name: str, content: bytes | memoryview | Path) -> FileEntry:
        """Upload a file of an epoch in progress, unless the repository has it; ``name`` is its name when restored.

        A file that `latest` or `load` found damaged is uploaded again.

        Raises:
            CheckpointError: the content changed while it was read.
            OptionError: the name is not one.
            RetryableError: the storage failed.
        """
        new_entry = entry_of(check_name("file", name), content)
        entry = msgspec.structs.replace(new_entry, run=self._run)
        if self.reuse(epoch, entry):
            return entry
        earlier = msgspec.structs.replace(new_entry, run=self._loaded.get(new_entry.digest, self._run))
        if earlier != entry and self.reuse(epoch, earlier):
            return earlier
        # The digest is that of the bytes in memory; a file on the disk is read a second time.
        self._shared.upload(entry, content, compare=isinstance(content, Path))
        self._damaged.discard(entry.stored)
        self._held.count(epoch, entry, uploaded=True)
        return entry

    def add_files(self, epoch: int, files: Sequence[tuple[str, bytes | memoryview]]) -> Sequence[FileEntry]:
        """Upload files by their names, several at a time where the storage is faster so; see `add_file`.

        If one fails, others may have been uploaded.
        """
        return self.files.together([partial(self.add_file, epoch, name, content) for name, content in files])

    def reuse(self, epoch: int, entry: FileEntry) -> bool:
        """Take a file of an earlier checkpoint into an epoch in progress without reading it again.

        Returns False if it is not there or was found damaged: add it then.
        """
        self._held.hold(epoch, (entry,))
        if entry.stored in self._damaged or not self._shared.has(entry):
            return False
        self._held.count(epoch, entry, uploaded=False)
        return True

    def files_of(self, epoch: int) -> "EpochFiles":
        """Return what adds files of an epoch in progress."""
        return EpochFiles(self, epoch)

    def contents(self, savepoint: str | None = None) -> ContentFolder:
        """Return the files of the checkpoints, or those of a savepoint."""
        return self._shared if savepoint is None else self._savepoints.contents(savepoint)


@dataclass(frozen=True, slots=True)
class EpochFiles:
    """The files of one epoch in progress; see `CheckpointUploads`."""

    uploads: CheckpointUploads
    epoch: int

    def add(self, name: str, content: bytes | memoryview) -> FileEntry:
        """Upload a file, unless the repository has it; see `CheckpointUploads.add_file`."""
        return self.uploads.add_file(self.epoch, name, content)

    def add_all(self, files: Sequence[tuple[str, bytes | memoryview]]) -> Sequence[FileEntry]:
        """Upload files by their names, unless the repository has them; see `CheckpointUploads.add_files`."""
        return self.uploads.add_files(self.epoch, files)

    def reuse(self, entry: FileEntry) -> bool:
        """Take a file of an earlier checkpoint; see `CheckpointUploads.reuse`."""
        return self.uploads.reuse(self.epoch, entry)


def uploading_runs(manifest: CheckpointManifest) -> dict[str, int]:
    """Return the runs that uploaded the files of a checkpoint, by the files' digests."""
    return {file.digest: file.run for file in manifest.files().values()}
