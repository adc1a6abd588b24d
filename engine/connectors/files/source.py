"""The base of sources of files, whatever the format: which files, their partitions, the columns that are read.

The sources of Parquet and of lines build on it.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from penstock.engine.connectors.files.listing import FileListing
from penstock.model.connectors import Source


class FileSource(Source):
    """The rows of a file, a directory or a glob; a partition per file, or shares of files where these are few.

    A subclass sets ``_schema`` to the fields of the rows.
    """

    format: ClassVar[str]
    """What the files hold, for plans and messages."""
    suffixes: ClassVar[Sequence[str]]
    """Which files of a directory are read, by the ends of their names."""
    _schema: pa.Schema

    def __init__(self, path: str | Path) -> None:
        """Look up the files.

        Raises:
            UserError: there is no such file.
        """
        self._path = path
        self._listing = FileListing(path, self.suffixes, self.format)
        self.grows = self._listing.grows
        self._time: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The declared or inferred fields, or those left after `restrict`."""
        return self._schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name one partition per file, or shares of their parts if there are fewer than ``parallelism``."""
        return self._listing.partitions(parallelism)

    def partitions_after(self, positions: Mapping[str, Any]) -> Sequence[str]:
        """Name one partition per new file."""
        return self._listing.partitions_after(self, positions)

    def up_to(self, positions: Mapping[str, Any]) -> Self:
        """Return a source of the files that were known."""
        changed = copy(self)
        changed._listing = self._listing.up_to(self, positions)
        return changed

    def local_files(self) -> Sequence[Path]:
        """Return the files of this run."""
        return self._listing.files

    def begin_run(self) -> None:
        """List the files anew."""
        self._listing.begin_run()

    def describe(self) -> str:
        """Name the path."""
        return f"{self.format} {self._path}"
