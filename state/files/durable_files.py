"""The contract of durable files: written whole or not at all, and safe from power loss once `write` has returned.

Checkpoints, savepoints and the manifests of file sinks stand on it (docs/design/checkpoints.md 4).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from penstock.model.errors import OptionError, RetryableError

T = TypeVar("T")

CHUNK_BYTES = 1 << 20
"""The most bytes read at a time."""

NAME_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}\Z"
"""The names that a file, a folder, a job or a savepoint may have; none starts with a dot."""

Chunk = bytes | memoryview
"""Bytes of a file in memory; who takes them has copied them, or is done with them, before the next."""

Content = bytes | memoryview | Path | Iterable[Chunk]
"""The content of a file: its bytes, a local file to copy, or its chunks in order (an open file has them too)."""


class DurableFiles(Protocol):
    """Files below one base, by relative paths such as ``checkpoints/0000000007.json``.

    Every part of a path matches `NAME_PATTERN`, so no path leaves the base. All methods may be called from several
    threads. Everywhere:

    Raises:
        OptionError: the path is not of that form.
        RetryableError: the storage failed or is full; trying again may help.
    """

    def write(self, path: str, content: Content) -> int:
        """Write a file, replacing one that is there, and return its bytes; its folders are made.

        Readers see the old file or the whole new one, also after a crash at any instant; once this has returned, the
        new one. If it raises, or ``content`` does, the file is as it was, or absent on an object store.
        """

    def chunks(self, path: str) -> Iterator[bytes]:
        """Return the file's bytes in chunks of at most `CHUNK_BYTES`.

        Raises:
            FileNotFoundError: there is no such file (with the first chunk).
        """

    def size(self, path: str) -> int | None:
        """Return the bytes of a file; None if there is no such file."""

    def list(self, folder: str) -> Sequence[str]:
        """Return the names of the files directly in a folder, sorted; unfinished writes are left out.

        A folder that does not exist holds nothing.
        """

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders directly in a folder, sorted. An object store may forget empty ones."""

    def delete(self, *paths: str) -> None:
        """Delete files, in order; those that do not exist are passed over. They stay deleted once this returned."""

    def delete_folder(self, folder: str) -> None:
        """Delete a folder and all below it, if it exists. A crash may leave any part of it."""

    def clear_unfinished(self, folder: str) -> None:
        """Remove what interrupted writes left directly in a folder. Call it while nothing is written there."""

    def read(self, path: str, limit_bytes: int | None = None) -> bytes:
        """Return a file's bytes; of a file longer than ``limit_bytes`` only the first ``limit_bytes + 1``.

        Raises:
            FileNotFoundError: there is no such file.
        """
        data = bytearray()
        for chunk in self.chunks(path):
            data += chunk
            if limit_bytes is not None and len(data) > limit_bytes:
                return bytes(data[: limit_bytes + 1])
        return bytes(data)

    def fetch(self, path: str, local_path: Path) -> int:
        """Copy a file to a local one, readable by its owner only, and return its bytes. Its folder must exist.

        Raises:
            FileNotFoundError: there is no such file.
        """
        return write_local(local_path, self.chunks(path))

    def together(self, works: Sequence[Callable[[], T]]) -> Sequence[T]:
        """Do pieces of work that write here, several at a time where that is faster; return what they return, in order.

        If one fails, its error is raised; others may have been done.
        """
        return [work() for work in works]

    def exists(self, path: str) -> bool:
        """Return whether there is such a file."""
        return self.size(path) is not None


def check_name(what: str, name: str) -> str:
    """Return the name.

    Raises:
        OptionError: it does not match `NAME_PATTERN`; the message names ``what`` it was to be.
    """
    if re.match(NAME_PATTERN, name) is None:
        raise OptionError(
            f"{name!r} cannot be the name of a {what}: use 1 to 200 letters, digits, '.', '_' and '-', no '.' in front."
        )
    return name


def split_path(path: str) -> tuple[str, str]:
    """Return the folder (``""`` is the base) and the name of a file's or a folder's path.

    Raises:
        OptionError: a part of it is not a name.
    """
    for part in path.split("/"):
        check_name("file or folder", part)
    folder, _, name = path.rpartition("/")
    return folder, name


def join_path(folder: str, name: str) -> str:
    """Return the path of a name in a folder; ``""`` is the base."""
    return f"{folder}/{name}" if folder else name


def chunks_of(content: Content) -> Iterator[Chunk]:
    """Return the chunks that a file is made of: what is in memory is one, and not copied.

    Each takes its turn with the interpreter, and a worker loop may let a thread wait for that.

    Raises:
        OSError: a local file cannot be read.
    """
    if isinstance(content, bytes | memoryview):
        if len(content):
            yield content
    elif isinstance(content, Path):
        with content.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    else:
        yield from content


def write_local(path: Path, chunks: Iterable[bytes]) -> int:
    """Write a local file of mode 0600 without syncing it, and return its bytes; if ``chunks`` raise, it is removed."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    written = 0
    try:
        with path.open("r+b") as file:
            for chunk in chunks:
                written += file.write(chunk)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return written


@contextmanager
def storage_errors(action: str, where: str) -> Iterator[None]:
    """Turn failures of the storage into `RetryableError`; a file that is not there stays a `FileNotFoundError`.

    Not when writing: then it is a folder or a bucket that is missing.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) and action != "write":
            raise
        reason = error.strerror or str(error)
        raise RetryableError(
            f"cannot {action} {where}: {reason}; check that the storage is there, not full and may be written."
        ) from error
