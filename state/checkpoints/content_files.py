"""Files named by the digest of their content (and their run), so that equal ones are kept once, and damage is noticed.

The folder ``files`` of a checkpoint repository and of each savepoint is one.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from penstock.model.errors import CheckpointError
from penstock.model.failpoints import failpoint
from penstock.state.checkpoints.manifest import FileEntry
from penstock.state.files.durable_files import Chunk, Content, DurableFiles, chunks_of, join_path, write_local

C = TypeVar("C", bound=Chunk)


@dataclass(frozen=True, slots=True)
class ContentFolder:
    """A folder whose files are named by `FileEntry.stored`."""

    files: DurableFiles
    name: str

    def has(self, entry: FileEntry) -> bool:
        """Return whether the file exists in full length; its bytes are not read."""
        return self.files.size(self.path(entry)) == entry.bytes

    def upload(self, entry: FileEntry, content: Content, *, compare: bool = True) -> None:
        """Write a file, in place of one that may be there; unless told to ``compare`` its bytes are known to be right.

        Raises:
            CheckpointError: the content is not what the entry says; nothing was kept.
        """
        failpoint("checkpoint.file.before_upload")
        chunks = chunks_of(content)
        self.files.write(self.path(entry), checked_chunks(chunks, entry) if compare else chunks)
        failpoint("checkpoint.file.uploaded")

    def chunks(self, entry: FileEntry) -> Iterator[bytes]:
        """Return a file's bytes in chunks, which are verified only after the last one.

        Raises:
            CheckpointError: the file is missing or damaged.
        """
        try:
            yield from checked_chunks(self.files.chunks(self.path(entry)), entry)
        except FileNotFoundError:
            raise CheckpointError(f"the file {entry.name!r} ({entry.digest}) is missing.") from None

    def damage(self, entry: FileEntry) -> str | None:
        """Read a file, compare length and digest, and return a description of the damage."""
        try:
            for _ in self.chunks(entry):
                pass
        except CheckpointError as error:
            return str(error)
        return None

    def read(self, entry: FileEntry) -> bytes:
        """Return the bytes of a file, all of them right.

        Raises:
            CheckpointError: the file is missing or damaged.
        """
        return b"".join(self.chunks(entry))

    def fetch(self, entry: FileEntry, local_path: Path) -> None:
        """Copy a file to a local one, which is there afterwards only if every byte is right.

        Raises:
            CheckpointError: the file is missing or damaged.
        """
        write_local(local_path, self.chunks(entry))

    def path(self, entry: FileEntry) -> str:
        """Return the path of a file among the durable files."""
        return join_path(self.name, entry.stored)


def entry_of(name: str, content: bytes | memoryview | Path) -> FileEntry:
    """Return the entry of a file.

    Raises:
        OSError: the local file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=32)
    length = 0
    for chunk in chunks_of(content):
        digest.update(chunk)
        length += len(chunk)
    return FileEntry(name=name, digest=digest.hexdigest(), bytes=length)


def checked_chunks(chunks: Iterable[C], entry: FileEntry) -> Iterator[C]:
    """Pass chunks on, and raise after the last (or as soon as there are too many) unless they are those of the entry.

    Raises:
        CheckpointError: they are not.
    """
    digest = hashlib.blake2b(digest_size=32)
    length = 0
    for chunk in chunks:
        digest.update(chunk)
        length += len(chunk)
        if length > entry.bytes:
            break
        yield chunk
    if length != entry.bytes:
        longer = "more than " if length > entry.bytes else ""
        raise CheckpointError(
            f"the file {entry.name!r} ({entry.digest}) is damaged: {longer}{min(length, entry.bytes):,} bytes "
            f"instead of {entry.bytes:,}."
        )
    if digest.hexdigest() != entry.digest:
        raise CheckpointError(
            f"the file {entry.name!r} ({entry.digest}) is damaged: its digest does not fit its bytes."
        )
