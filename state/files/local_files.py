"""Durable files in a local folder: the steps of a real disk. Checkpoints on one machine and file sinks use them."""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.state.files.disk_files import UNFINISHED, Disk, DiskFiles, OpenFile
from penstock.state.files.durable_files import CHUNK_BYTES, Chunk, join_path
from penstock.state.files.together import T, in_threads


class LocalFiles(DiskFiles):
    """Durable files in a local folder, which is made with the first write; folders have mode 0700, files 0600.

    Pickled, it is the absolute path of the folder.
    """

    def __init__(self, folder: Path | str) -> None:
        """Keep the folder; nothing is touched yet."""
        self.base = Path(folder)
        super().__init__(_LocalDisk(self.base), str(folder))

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalFiles, (self.base.absolute(),)

    def together(self, works: Sequence[Callable[[], T]]) -> Sequence[T]:
        """Do several at a time, each in a thread."""
        return in_threads(works)

    def __repr__(self) -> str:
        return f"LocalFiles({str(self.base)!r})"


class _LocalFile:
    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "wb", buffering=0)

    def write(self, chunk: Chunk) -> None:
        rest = memoryview(chunk)
        while rest:
            rest = rest[self._file.write(rest) :]

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class _LocalDisk(Disk):
    def __init__(self, base: Path) -> None:
        self._base = base

    def create(self, folder: str, name: str) -> tuple[str, OpenFile]:
        descriptor, path = tempfile.mkstemp(UNFINISHED, name, self._base / folder)
        return join_path(folder, Path(path).name), _LocalFile(descriptor)

    def rename(self, old: str, new: str) -> None:
        (self._base / old).replace(self._base / new)

    def make_folder(self, folder: str) -> None:
        (self._base / folder).mkdir(mode=0o700, exist_ok=True)

    def sync_folder(self, folder: str) -> None:
        _sync_folder(self._base / folder)

    def sync_base(self) -> None:
        missing = [self._base]
        while not missing[-1].exists():
            missing.append(missing[-1].parent)
        for folder in reversed(missing[:-1]):
            folder.mkdir(mode=0o700, exist_ok=True)
            _sync_folder(folder.parent)
        if len(missing) == 1:
            # A folder above it that may not be read was not ours to make, so the base's name is older than the job.
            with suppress(PermissionError):
                _sync_folder(self._base.parent)

    def remove(self, path: str) -> None:
        (self._base / path).unlink()

    def remove_folder(self, folder: str) -> None:
        shutil.rmtree(self._base / folder)

    def chunks(self, path: str) -> Iterator[bytes]:
        with (self._base / path).open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def size(self, path: str) -> int:
        status = (self._base / path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return status.st_size

    def names(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        with os.scandir(self._base / folder) as entries:
            entries_found = [(entry.name, entry.is_dir()) for entry in entries]
        return [name for name, is_folder in entries_found if not is_folder], [
            name for name, is_folder in entries_found if is_folder
        ]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
