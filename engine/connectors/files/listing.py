"""The files of a source as they are when a run begins, and which of them are new since an earlier run.

Shared by the sources of Parquet and of lines. The listing holds for the whole run, whatever is restarted in between.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import msgspec

from penstock.engine.connectors.files.paths import find_files
from penstock.engine.connectors.files.positions import FileMark, restored_partition, unchanged_partition
from penstock.engine.connectors.partitions import FilePartition, file_partition, file_partitions, new_file_partitions
from penstock.engine.connectors.positions import read_position
from penstock.model.connectors import Source
from penstock.model.errors import UserError


class MarkedPosition(msgspec.Struct, frozen=True):
    """The mark that all positions in files carry."""

    mark: FileMark


class FileListing:
    """The files of a path, a directory or a glob. Restricted copies of a source share it."""

    def __init__(self, path: str | Path, suffixes: Sequence[str], what: str) -> None:
        """List the files; ``what`` names the format in messages.

        Raises:
            UserError: there are none.
        """
        self._path, self._suffixes, self._what = path, tuple(suffixes), what
        self.files = find_files(path, suffixes, what)
        self._is_new = True
        self.grows = not Path(path).expanduser().is_file()

    def begin_run(self) -> None:
        """List the files anew, unless that was only now.

        Raises:
            UserError: there are none any more.
        """
        if self._is_new:
            self._is_new = False
        else:
            self.files = find_files(self._path, self._suffixes, self._what)

    def partitions(self, parallelism: int) -> list[str]:
        """Name the partitions of all files."""
        return file_partitions(self.files, parallelism)

    def partition(self, name: str, mark: FileMark | None) -> FilePartition:
        """Return a partition, as it was when a run stopped at a mark in it.

        Raises:
            UserError: it is no longer so.
        """
        return file_partition(self.files, name) if mark is None else restored_partition(self.files, name, mark)

    def partitions_after(self, source: Source, positions: Mapping[str, Any]) -> list[str]:
        """Name a partition per file that no run before these positions knew. Files that are gone are not missed.

        Raises:
            UserError: a file has another length than when it was read, or files cannot be told from new ones.
        """
        return new_file_partitions(self.files, self._paths_in(source, positions))

    def up_to(self, source: Source, positions: Mapping[str, Any]) -> "FileListing":
        """Return a listing of the files that runs up to these positions knew.

        Raises:
            UserError: one of them is gone, or has another length than when it was read.
        """
        paths = self._paths_in(source, positions)
        here = {str(path) for path in self.files}
        for name in sorted(paths - here):
            raise UserError(f"{name!r} was read by the job and is no longer there, so it cannot be read again")
        among = copy(self)
        among.files = tuple(path for path in self.files if str(path) in paths)
        return among

    def _paths_in(self, source: Source, positions: Mapping[str, Any]) -> set[str]:
        marks = {name: read_position(source, at, MarkedPosition).mark for name, at in positions.items()}
        for mark in marks.values():
            _check_length(mark)
        paths: set[str] = set()
        for name, mark in marks.items():
            paths.update(mark.files or ((mark.file,) if not mark.names else self._together(name, mark)))
        return paths

    def _together(self, name: str, mark: FileMark) -> Sequence[str]:
        """Return the files of a partition whose mark has only a digest of their names: all must be as they were."""
        partition = unchanged_partition(self.files, name, mark)
        if partition is None:
            raise UserError(
                f"files came to {str(self._path)!r}, or went, since the job read it, and which are new cannot be told: "
                "the checkpoint has no list of them, as there are too many or an older version wrote it; bring the "
                "files of then back, or start the job anew (restore='none')"
            )
        return [str(path) for path in partition.files]


def _check_length(mark: FileMark) -> None:
    """Refuse a file that changed after it was read: its new rows would be lost, or its old ones come twice."""
    try:
        length = Path(mark.file).stat().st_size
    except OSError:
        return
    if length != mark.length:
        raise UserError(
            f"{mark.file!r} has {length} bytes, but had {mark.length} when the job read it, and files are read once: "
            "put new rows into new files (under a name that begins with '.' or '_' until they are complete) and bring "
            "the old file back or delete it, or start the job anew (restore='none')"
        )
