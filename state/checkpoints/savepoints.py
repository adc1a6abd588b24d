"""Savepoints: checkpoints by name, each complete in itself below ``savepoints/<name>/``."""

from collections.abc import Sequence

from penstock.model.errors import OptionError
from penstock.model.failpoints import failpoint
from penstock.state.checkpoints.content_files import ContentFolder
from penstock.state.checkpoints.manifest import CheckpointManifest, encode_manifest
from penstock.state.files.durable_files import DurableFiles, check_name

SAVEPOINTS = "savepoints"


class Savepoints:
    """All savepoints of a repository; one exists as soon as its manifest, which is written last, does."""

    def __init__(self, files: DurableFiles) -> None:
        """Keep the files."""
        self._files = files

    def names(self) -> Sequence[str]:
        """Return the names of all savepoints, sorted."""
        return [name for name in self._files.folders(SAVEPOINTS) if self._files.exists(self.manifest_path(name))]

    def write(self, name: str, manifest: CheckpointManifest, source: ContentFolder) -> None:
        """Copy the files of a manifest from ``source``, then write the manifest.

        Raises:
            OptionError: the name is not one, or is taken.
            CheckpointError: a file is missing or damaged; there is no savepoint then.
        """
        path = self.manifest_path(name)
        if self._files.exists(path):
            raise OptionError(f"there is a savepoint {name!r} already: choose another name or delete it.")
        data = encode_manifest(manifest)
        target = self.contents(name)
        for entry in manifest.files().values():
            target.upload(entry, source.chunks(entry))
        failpoint("savepoint.before_publish")
        self._files.write(path, data)
        failpoint("savepoint.published")

    def delete(self, name: str) -> None:
        """Delete a savepoint, if it exists."""
        self._files.delete(self.manifest_path(name))
        failpoint("savepoint.manifest_deleted")
        self._files.delete_folder(f"{SAVEPOINTS}/{name}")

    def delete_incomplete(self) -> None:
        """Delete incomplete savepoints. Call it only while none is being written."""
        complete = set(self.names())
        for name in self._files.folders(SAVEPOINTS):
            if name not in complete:
                self._files.delete_folder(f"{SAVEPOINTS}/{name}")

    def contents(self, name: str) -> ContentFolder:
        """Return the folder of a savepoint's files.

        Raises:
            OptionError: the name is not one.
        """
        return ContentFolder(self._files, f"{SAVEPOINTS}/{check_name('savepoint', name)}/files")

    def manifest_path(self, name: str) -> str:
        """Return the path of a savepoint's manifest.

        Raises:
            OptionError: the name is not one.
        """
        return f"{SAVEPOINTS}/{check_name('savepoint', name)}/manifest.json"
