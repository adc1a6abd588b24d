"""Durable files by the steps of a disk: written beside, synced, renamed, and the folder synced.

The steps are handed in, so that the simulated disk runs this code and not an imitation of it
(docs/design/checkpoints.md 4).
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from penstock.model.failpoints import failpoint
from penstock.state.files.durable_files import (
    Chunk,
    Content,
    DurableFiles,
    chunks_of,
    join_path,
    split_path,
    storage_errors,
)

UNFINISHED = ".unfinished"
"""The ending of files that are being written; they start with a dot besides, so no `DurableFiles` path names one."""


class OpenFile(Protocol):
    """A file being written."""

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""

    def sync(self) -> None:
        """Return once all that was written is safe; the file's name is not."""

    def close(self) -> None:
        """Close it, synced or not."""


class Disk(Protocol):
    """The steps of a file system, with relative paths; ``""`` is the base. Steps raise `OSError`."""

    def create(self, folder: str, name: str) -> tuple[str, OpenFile]:
        """Make a new, empty file whose name begins with ``name`` and ends in `UNFINISHED`; return its path."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in the same folder, atomically; not safe before `sync_folder`."""

    def make_folder(self, folder: str) -> None:
        """Make one folder unless it is there; not safe before `sync_folder` of the folder that it lies in."""

    def sync_folder(self, folder: str) -> None:
        """Return once the names in a folder are safe."""

    def sync_base(self) -> None:
        """Make the base and the folders above it unless they are there, and return once its own name is safe."""

    def remove(self, path: str) -> None:
        """Remove a file; not safe before `sync_folder`."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder and what it holds."""

    def chunks(self, path: str) -> Iterator[bytes]:
        """Return the bytes of a file."""

    def size(self, path: str) -> int:
        """Return the bytes of a file."""

    def names(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of the files and of the folders in a folder."""


class DiskFiles(DurableFiles):
    """Durable files by the steps of a disk."""

    def __init__(self, disk: Disk, where: str) -> None:
        """``where`` names the base in messages."""
        self._disk = disk
        self._where = where
        self._safe_folders: set[str] = set()

    def write(self, path: str, content: Content) -> int:
        """Write beside, sync, rename, sync the folder."""
        folder, name = split_path(path)
        with self._errors("write", path):
            part, file = self._create(folder, name)
        written = 0
        try:
            try:
                for chunk in chunks_of(content):
                    with self._errors("write", path):
                        file.write(chunk)
                    written += len(chunk)
                failpoint("files.write.before_sync")
                with self._errors("write", path):
                    file.sync()
            finally:
                file.close()
            failpoint("files.write.before_rename")
            with self._errors("write", path):
                self._disk.rename(part, path)
        except Exception:
            with suppress(OSError):
                self._disk.remove(part)
            raise
        failpoint("files.write.renamed")
        with self._errors("write", path):
            self._disk.sync_folder(folder)
        failpoint("files.write.done")
        return written

    def chunks(self, path: str) -> Iterator[bytes]:
        """Read through the disk."""
        split_path(path)
        with self._errors("read", path):
            yield from self._disk.chunks(path)

    def size(self, path: str) -> int | None:
        """Ask the disk."""
        split_path(path)
        try:
            with self._errors("read", path):
                return self._disk.size(path)
        except FileNotFoundError:
            return None

    def list(self, folder: str) -> Sequence[str]:
        """Ask the disk, and leave out unfinished files."""
        return sorted(name for name in self._names(folder)[0] if not is_unfinished(name))

    def folders(self, folder: str) -> Sequence[str]:
        """Ask the disk."""
        return sorted(self._names(folder)[1])

    def delete(self, *paths: str) -> None:
        """Remove in order, then sync each folder once; a file that is gone may have been removed and not synced."""
        folders = dict.fromkeys(split_path(path)[0] for path in paths)
        for path in paths:
            with self._errors("delete", path):
                try:
                    self._disk.remove(path)
                except FileNotFoundError:
                    continue
        for folder in folders:
            with self._errors("delete files of", folder):
                try:
                    self._disk.sync_folder(folder)
                except FileNotFoundError:
                    continue

    def delete_folder(self, folder: str) -> None:
        """Remove it, and sync the folder that it lay in."""
        parent, _ = split_path(folder)
        # Whoever writes there again makes the folder again, and syncs its name.
        self._safe_folders = {safe for safe in self._safe_folders if not _lies_in(safe, folder)}
        with self._errors("delete", folder):
            try:
                self._disk.remove_folder(folder)
                self._disk.sync_folder(parent)
            except FileNotFoundError:
                return

    def clear_unfinished(self, folder: str) -> None:
        """Remove the files that are neither renamed nor removed."""
        for name in self._names(folder)[0]:
            if is_unfinished(name):
                with self._errors("delete", name):
                    self._disk.remove(join_path(folder, name))

    def _create(self, folder: str, name: str) -> tuple[str, OpenFile]:
        self._secure(folder)
        try:
            return self._disk.create(folder, f".{name}.")
        except FileNotFoundError:
            # Another process deleted the folder.
            self._safe_folders.clear()
            self._secure(folder)
            return self._disk.create(folder, f".{name}.")

    def _secure(self, folder: str) -> None:
        """Make a folder and those above it; also of one that exists the name may not be safe yet: sync it once."""
        if folder in self._safe_folders:
            return
        if folder:
            parent, _ = split_path(folder)
            self._secure(parent)
            self._disk.make_folder(folder)
            self._disk.sync_folder(parent)
        else:
            self._disk.sync_base()
        self._safe_folders.add(folder)

    def _names(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        if folder:
            split_path(folder)
        try:
            with self._errors("list", folder):
                return self._disk.names(folder)
        except FileNotFoundError:
            return (), ()

    def _errors(self, action: str, path: str) -> AbstractContextManager[None]:
        return storage_errors(action, f"{path!r} below {self._where!r}")


def is_unfinished(name: str) -> bool:
    """Return whether a file of this name was being written beside its place."""
    return name.startswith(".") and name.endswith(UNFINISHED)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
