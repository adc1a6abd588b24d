"""Marks of files in positions, so that a restore goes on in the same files or not at all.

Shared by the sources of Parquet and of lines, whose readers add where they stand in a file.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from penstock.engine.connectors.partitions import FilePartition, file_partition, share_of
from penstock.model.errors import BugError, UserError

_HEAD_BYTES = 1 << 12
_TAIL_BYTES = 1 << 16


_MOST_NAMES = 400
"""Of files that are read together; with 256 partitions a checkpoint names 100,000 files at the most."""


class FileMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file, what tells it from another of that name, and its place among the source's files when the job began.

    ``first`` is the number of its partition's first file, ``names`` a digest of the names of all, "" if it is alone;
    ``files`` are all, unless it is alone or they are too many.
    """

    file: str
    length: int
    digest: str
    first: int
    names: str
    files: tuple[str, ...] = ()


def mark(partition: FilePartition, path: Path) -> FileMark:
    """Return what to remember of one of a partition's files: its length, and a digest of its beginning and its end.

    Raises:
        UserError: the file cannot be read.
    """
    together = len(partition.files)
    files = tuple(str(item) for item in partition.files) if 1 < together <= _MOST_NAMES else ()
    return FileMark(str(path), *_fingerprint(path), partition.first, _names_digest(partition), files)


def restored_partition(files: Sequence[Path], name: str, mark: FileMark) -> FilePartition:
    """Return a partition as it was when the job began, however many files were added to the source since.

    Raises:
        UserError: the file that was being read is gone or differs, or others came into its partition.
    """
    path = next((path for path in files if str(path) == mark.file), None)
    if path is None or not path.is_file():
        raise UserError(f"{mark.file!r}, where reading stopped, is no longer there to go on from")
    length, digest = _fingerprint(path)
    if (length, digest) != (mark.length, mark.digest):
        what = f"has {length} bytes instead of {mark.length}" if length != mark.length else "has other contents"
        raise UserError(
            f"{mark.file!r} has changed since reading stopped there (it {what}): bring the old file back, or start "
            "the job anew"
        )
    if not mark.names:
        # Which pieces belong to a share depends on the number that the file had.
        return FilePartition([path], mark.first, *share_of(name, mark.file))
    if mark.files:
        return FilePartition([Path(item) for item in mark.files], mark.first, *share_of(name, mark.files[0]))
    partition = unchanged_partition(files, name, mark)
    if partition is None or partition.first != mark.first:
        raise UserError(
            f"the files that are read together with {mark.file!r} are others than when reading stopped there (more "
            "than 256 files are not a partition each): bring back the old files, or start the job anew"
        )
    return partition


def unchanged_partition(files: Sequence[Path], name: str, mark: FileMark) -> FilePartition | None:
    """Return a partition if the names of its files are those that a mark was made of, None if not."""
    try:
        partition = file_partition(files, name)
    except BugError:
        return None
    return partition if _names_digest(partition) == mark.names else None


def _fingerprint(path: Path) -> tuple[int, str]:
    """Return the length and a digest of the first 4 and the last 64 KB, where Parquet has its footer."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb", buffering=0) as file:
            digest.update(file.read(_HEAD_BYTES))
            length = file.seek(0, 2)
            file.seek(max(0, length - _TAIL_BYTES))
            digest.update(file.read(_TAIL_BYTES))
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    return length, digest.hexdigest()


def _names_digest(partition: FilePartition) -> str:
    """Return a digest of the names of a partition's files, "" of one alone."""
    if len(partition.files) == 1:
        return ""
    names = "\0".join(str(path) for path in partition.files)
    return hashlib.blake2b(names.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
