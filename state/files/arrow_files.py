"""Durable files through `pyarrow.fs` (S3, GCS, HDFS), and the address that names any kind of them.

An object store publishes a file with one PUT; other file systems write beside and move. S3 is tested against a server
that speaks its protocol; GCS and HDFS pass through.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from pyarrow import fs

from penstock.model.errors import OptionError
from penstock.state.files.disk_files import UNFINISHED, is_unfinished
from penstock.state.files.durable_files import (
    CHUNK_BYTES,
    Content,
    DurableFiles,
    check_name,
    chunks_of,
    join_path,
    split_path,
    storage_errors,
)
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.together import T, in_threads

REMOTE_SCHEMES = ("s3", "gs", "gcs", "hdfs")
"""The schemes that `open_files` hands to pyarrow."""

_OBJECT_STORES = ("s3", "gcs", "abfs")


def open_files(url: str, *below: str) -> DurableFiles:
    """Return the files at an address: a local path, ``file://``, or one of `REMOTE_SCHEMES`.

    ``below`` are names of folders under it, such as a job's.

    Raises:
        OptionError: the address cannot be used, or a name is not one.
    """
    for name in below:
        check_name("folder", name)
    inner = "/".join(below)
    scheme = url.partition("://")[0] if "://" in url else ""
    if not scheme:
        return LocalFiles(Path(url).expanduser() / inner)
    if scheme == "file":
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise OptionError(f"{url!r} names another machine: write file:/// and an absolute path.")
        return LocalFiles(Path(unquote(parts.path)) / inner)
    if scheme not in REMOTE_SCHEMES:
        raise OptionError(
            f"{_without_secrets(url)!r} cannot hold files: use a path, file://, "
            f"{', '.join(f'{name}://' for name in REMOTE_SCHEMES)}."
        )
    try:
        filesystem, base = fs.FileSystem.from_uri(url)
    except (OSError, ValueError) as error:
        reason = str(error).replace(url, _without_secrets(url)).splitlines()[0]
        raise OptionError(f"{_without_secrets(url)!r} cannot be opened: {reason}.") from None
    if not base.strip("/"):
        raise OptionError(f"{_without_secrets(url)!r} names no bucket or folder: add one.")
    base = f"{base.rstrip('/')}/{inner}".rstrip("/")
    object_store = filesystem.type_name in _OBJECT_STORES
    return ArrowFiles(filesystem, base, object_store=object_store, address=(url, *below))


class ArrowFiles(DurableFiles):
    """Durable files below ``base`` in a file system of pyarrow's; as safe as that makes a file once it is closed.

    Pickled, it is its ``address``: another process makes a client of its own, with the credentials that it finds.
    """

    def __init__(
        self, filesystem: fs.FileSystem, base: str, *, object_store: bool, address: tuple[str, ...] = ()
    ) -> None:
        """Keep the file system and the base; nothing is touched yet.

        ``object_store`` says that a file appears when its stream is closed, and that folders need not be made.
        ``address`` is what `open_files` made it of; without one the file system is pickled as pyarrow does it.
        """
        self._filesystem = filesystem
        self._base = base
        self._beside = not object_store
        self._address = address

    def __reduce__(self) -> tuple[Any, ...]:
        if self._address:
            return open_files, self._address
        return _rebuilt, (self._filesystem, self._base, not self._beside)

    def together(self, works: Sequence[Callable[[], T]]) -> Sequence[T]:
        """Do several at a time, each in a thread."""
        return in_threads(works)

    def __repr__(self) -> str:
        return f"ArrowFiles({self._filesystem.type_name!r}, {self._base!r})"

    def write(self, path: str, content: Content) -> int:
        """Write in one go on an object store, else beside and then move."""
        folder, name = split_path(path)
        target = self._at(path)
        part = self._at(join_path(folder, f".{name}.{uuid4().hex}{UNFINISHED}")) if self._beside else target
        with self._errors("write", path):
            if self._beside:
                self._filesystem.create_dir(self._at(folder), recursive=True)
            stream = self._filesystem.open_output_stream(part, compression=None)
        written = 0
        try:
            for chunk in chunks_of(content):
                with self._errors("write", path):
                    stream.write(chunk)
                written += len(chunk)
            with self._errors("write", path):
                stream.close()
            if self._beside:
                with self._errors("write", path):
                    self._filesystem.move(part, target)
        except BaseException:
            # pyarrow cannot give up a stream: closing it publishes what there is, so that has to go.
            with suppress(OSError):
                stream.close()
            with suppress(OSError):
                self._filesystem.delete_file(part)
            raise
        return written

    def chunks(self, path: str) -> Iterator[bytes]:
        """Read in order, without read-ahead beyond a chunk."""
        split_path(path)
        with (
            self._errors("read", path),
            self._filesystem.open_input_stream(self._at(path), compression=None) as stream,
        ):
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk

    def size(self, path: str) -> int | None:
        """Ask the file system."""
        split_path(path)
        with self._errors("read", path):
            info = self._filesystem.get_file_info(self._at(path))
        return info.size if info.type == fs.FileType.File else None

    def list(self, folder: str) -> Sequence[str]:
        """Ask the file system, and leave out unfinished files."""
        return sorted(
            info.base_name
            for info in self._infos(folder)
            if info.type == fs.FileType.File and not is_unfinished(info.base_name)
        )

    def folders(self, folder: str) -> Sequence[str]:
        """Ask the file system."""
        return sorted(info.base_name for info in self._infos(folder) if info.type == fs.FileType.Directory)

    def delete(self, *paths: str) -> None:
        """Delete one by one: a file system has no order of its own."""
        for path in paths:
            split_path(path)
            with suppress(FileNotFoundError), self._errors("delete", path):
                self._filesystem.delete_file(self._at(path))

    def delete_folder(self, folder: str) -> None:
        """Delete all of it."""
        split_path(folder)
        with suppress(FileNotFoundError), self._errors("delete", folder):
            self._filesystem.delete_dir(self._at(folder))

    def clear_unfinished(self, folder: str) -> None:
        """Delete what was written beside and not moved; an object store has nothing of the kind."""
        for info in self._infos(folder):
            if info.type == fs.FileType.File and is_unfinished(info.base_name):
                with suppress(FileNotFoundError), self._errors("delete", info.base_name):
                    self._filesystem.delete_file(info.path)

    def _infos(self, folder: str) -> Sequence[fs.FileInfo]:
        if folder:
            split_path(folder)
        with self._errors("list", folder):
            infos: Sequence[fs.FileInfo] = self._filesystem.get_file_info(
                fs.FileSelector(self._at(folder), allow_not_found=True)
            )
        return infos

    def _at(self, path: str) -> str:
        return join_path(self._base, path) if path else self._base

    def _errors(self, action: str, path: str) -> AbstractContextManager[None]:
        return storage_errors(action, f"{path!r} below {self._base!r}")


def _rebuilt(filesystem: fs.FileSystem, base: str, object_store: bool) -> ArrowFiles:
    return ArrowFiles(filesystem, base, object_store=object_store)


def _without_secrets(url: str) -> str:
    return re.sub(r"://[^/@]*@", "://***@", url.partition("?")[0])
