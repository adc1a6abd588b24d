"""Files that appear under their name only when they are complete and on disk. Called by the file sinks."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from penstock.model.errors import UserError
from penstock.model.failpoints import failpoint

UNFINISHED = ".unfinished"
"""The ending of files that are being written."""

_numbers = itertools.count()


class FinishedFile:
    """A file being written beside its final place, under a name that readers of the folder pass over.

    What a process that died has left of the file is removed. `commit` puts it in place; `discard` removes it.
    """

    def __init__(self, path: Path) -> None:
        """Make the folder and check that a file may stand at ``path``.

        Raises:
            UserError: a directory stands there, or the folder cannot be made.
        """
        self.path = path
        # Its own: a run that was taken over removes its file and not that of the other run.
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}-{next(_numbers)}{UNFINISHED}")
        if path.is_dir():
            raise UserError(f"cannot write the file {str(path)!r}: a directory has that name")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            for left in path.parent.iterdir():
                if left.name.startswith(f".{path.name}.") and left.name.endswith(UNFINISHED):
                    left.unlink(missing_ok=True)
            self.stream: BinaryIO = self._temporary.open("wb")
        except OSError as error:
            raise UserError(f"cannot write {str(path)!r}: {error.strerror}") from None

    def commit(self) -> None:
        """Bring everything to disk, then rename: a crash leaves the old file or the new one."""
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        self._temporary.replace(self.path)
        sync_folder(self.path.parent)

    def discard(self) -> None:
        """Remove what was written."""
        self.stream.close()
        self._temporary.unlink(missing_ok=True)


def publish(path: Path, content: bytes, staging: Path, point: str) -> None:
    """Write a small file: a crash, or a failure at a point whose name begins with ``point``, leaves the old or the new.

    It is written in ``staging``, a folder of the same file system, and renamed.

    Raises:
        OSError: it cannot be written.
    """
    failpoint(f"{point}.before")
    temporary = staging / f".{path.name}{UNFINISHED}"
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        failpoint(f"{point}.written")
        os.fsync(file.fileno())
    failpoint(f"{point}.synced")
    temporary.replace(path)
    failpoint(f"{point}.renamed")
    sync_folder(path.parent)
    failpoint(f"{point}.after")


def sync_folder(path: Path) -> None:
    """Bring the names of a folder to disk: what was made, renamed or removed in it stays so."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def output_path(path: Path, suffix: str, instance: int, parallelism: int) -> Path:
    """Return the file of one sink instance: ``path`` itself if it has a suffix and there is one instance.

    Otherwise ``path`` is a directory of ``part-INSTANCE`` files.
    """
    if path.suffix and parallelism == 1 and not path.is_dir():
        return path
    return path / f"part-{instance:05d}{suffix}"


def remove_other_parts(path: Path, suffix: str, parallelism: int, remove: Callable[[Path], None] = Path.unlink) -> None:
    """Remove the parts that an earlier run with more instances left in a directory."""
    for part in path.glob(f"part-?????{suffix}"):
        number = part.name[5:10]
        if number.isdigit() and int(number) >= parallelism:
            remove(part)
