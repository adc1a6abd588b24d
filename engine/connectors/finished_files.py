"""Files that appear under their name only when they are complete and on disk. Called by the file sinks."""

import os
from pathlib import Path
from typing import BinaryIO

from penstock.model.errors import UserError


class FinishedFile:
    """A file being written beside its final place, under a name that readers of the folder pass over.

    `commit` puts it in place; `discard` removes it. The file is opened with the first access to `stream`.
    """

    def __init__(self, path: Path) -> None:
        """Make the folder and check that a file may stand at ``path``.

        Raises:
            UserError: a directory stands there, or the folder cannot be made.
        """
        self.path = path
        self._temporary = path.with_name(f".{path.name}.unfinished")
        if path.is_dir():
            raise UserError(f"cannot write the file {str(path)!r}: a directory has that name")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.stream: BinaryIO = self._temporary.open("wb")
        except OSError as error:
            raise UserError(f"cannot write {str(path)!r}: {error.strerror}") from None

    def commit(self) -> None:
        """Bring everything to disk, then rename: a crash leaves the old file or the new one."""
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        self._temporary.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Remove what was written."""
        self.stream.close()
        self._temporary.unlink(missing_ok=True)


def output_path(path: Path, suffix: str, instance: int, parallelism: int) -> Path:
    """Return the file of one sink instance: ``path`` itself if it has a suffix and there is one instance.

    Otherwise ``path`` is a directory of ``part-INSTANCE`` files.
    """
    if path.suffix and parallelism == 1 and not path.is_dir():
        return path
    return path / f"part-{instance:05d}{suffix}"


def remove_other_parts(path: Path, suffix: str, parallelism: int) -> None:
    """Remove the parts that an earlier run with more instances left in a directory."""
    for part in path.glob(f"part-?????{suffix}"):
        number = part.name[5:10]
        if number.isdigit() and int(number) >= parallelism:
            part.unlink()
