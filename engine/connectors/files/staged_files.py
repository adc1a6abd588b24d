"""Files of a checkpoint that nobody sees yet, and the receipts that say what they hold. Called by the file sinks."""

import hashlib
import io
import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.engine.connectors.files.finished_files import sync_folder
from penstock.model.errors import FatalError
from penstock.model.failpoints import failpoint

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DIGEST_BYTES = 32
"""Bytes of a BLAKE2b digest."""

_NAME = re.compile(r"part-\d{5,9}-(\d{10,18})(\.[a-z]+)")
_numbers = itertools.count()


class OutputFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of one instance and checkpoint: its size in bytes, and the BLAKE2b digest of these in hexadecimal."""

    name: str
    rows: int
    bytes: int
    digest: str

    @property
    def epoch(self) -> int:
        """The checkpoint at whose barrier the file was completed."""
        epoch = epoch_of(self.name)
        assert epoch is not None
        return epoch


class StagedFile:
    """A file being written in the staging folder. `stage` completes it; `discard` removes it if it is not complete."""

    def __init__(self, folder: Path, instance: int, suffix: str) -> None:
        """Open a new file, whatever a process that died left in the folder."""
        self._folder = folder
        self._instance = instance
        self._suffix = suffix
        while True:
            self._path = folder / f"{instance:05d}-{os.getpid()}-{next(_numbers)}{suffix}.unfinished"
            try:
                self.stream = _DigestedFile(self._path)
                return
            except FileExistsError:
                continue

    def stage(self, epoch: int, rows: int) -> OutputFile:
        """Bring the file to disk under the name that it will have when the checkpoint is committed.

        Raises:
            OSError: it cannot be written.
        """
        failpoint("sink.stage.before")
        self.stream.flush()
        size = self.stream.tell()
        os.fsync(self.stream.fileno())
        self.stream.close()
        failpoint("sink.stage.synced")
        name = f"part-{self._instance:05d}-{epoch:010d}{self._suffix}"
        self._path.replace(self._folder / name)
        failpoint("sink.stage.renamed")
        sync_folder(self._folder)
        failpoint("sink.stage.after")
        return OutputFile(name, rows, size, self.stream.digest.hexdigest())

    def discard(self) -> None:
        """Remove what was written."""
        self.stream.close()
        self._path.unlink(missing_ok=True)


class _DigestedFile(io.BufferedWriter):
    """Takes the digest of what was meant to be written, so that what reached the disk can be held against it."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "xb"))
        self.digest = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def write(self, content: "ReadableBuffer") -> int:
        self.digest.update(content)
        return super().write(content)


def epoch_of(name: str) -> int | None:
    """Return the epoch in the name of a file of a checkpoint, None if it is no such name."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def file_digest(path: Path) -> tuple[int, str]:
    """Return the bytes of a file and their digest.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES))
        return stream.tell(), digest.hexdigest()


def check_staged(path: Path, file: OutputFile) -> None:
    """Raise `FatalError` unless the file at ``path`` holds exactly what its receipt says."""
    try:
        size, digest = file_digest(path)
    except FileNotFoundError:
        raise FatalError(
            f"{str(path)!r} is gone, which holds {file.rows} rows of a checkpoint that was not committed: "
            "restore an earlier checkpoint, or one that was written to this directory"
        ) from None
    if size != file.bytes or digest != file.digest:
        raise FatalError(
            f"{str(path)!r} is damaged: it holds {size} bytes that differ from the {file.bytes} that were written; "
            "restore an earlier checkpoint"
        )


def from_receipts(receipts: Sequence[Any], suffix: str, epoch: int) -> tuple[OutputFile, ...]:
    """Return the files of receipts by name; each is a list of `OutputFile` as JSON-able data.

    Raises:
        FatalError: it is no receipt of a sink that writes files with this suffix up to ``epoch``.
    """
    try:
        files = [file for receipt in receipts for file in msgspec.convert(receipt, list[OutputFile])]
    except msgspec.ValidationError as error:
        raise FatalError(f"the receipts of checkpoint {epoch} are not those of a file sink: {error}") from None
    for file in files:
        match = _NAME.fullmatch(file.name)
        if match is None or match[2] != suffix or int(match[1]) > epoch:
            raise FatalError(f"the receipts of checkpoint {epoch} name a file that is none of its own: {file.name!r}")
    if len({file.name for file in files}) != len(files):
        raise FatalError(f"the receipts of checkpoint {epoch} name a file twice")
    return tuple(sorted(files, key=lambda file: file.name))
