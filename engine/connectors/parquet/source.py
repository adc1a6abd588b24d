"""Parquet as a source: only the wanted columns, without the row groups that a predicate rules out.

Built by the DSL's readers.
"""

import difflib
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.connectors.arrow_capsule import normal_schema
from penstock.engine.connectors.files.listing import FileListing
from penstock.engine.connectors.parquet.reader import ParquetPosition, ParquetReader
from penstock.engine.connectors.positions import read_position
from penstock.model.connectors import Reader, Source
from penstock.model.errors import SchemaError, UserError

if TYPE_CHECKING:
    from penstock.model.expressions import Expr

SUFFIXES = (".parquet", ".pq")


class ParquetSource(Source):
    """The rows of a file, a directory or a glob.

    Every file is a partition with a watermark of its own, so files may overlap in time; each should be in order. Of
    more than 256, neighbours by name are read one after another in one partition and should follow each other in time.
    With fewer files than instances, the row groups of each are dealt out in turn, so that they advance together.
    """

    def __init__(self, path: str | Path, schema: pa.Schema | None = None) -> None:
        """Look up the files; without a schema it is the first file's, otherwise its columns are read in its types.

        Raises:
            UserError: there is no such file, or it is not Parquet.
            SchemaError: the first file lacks a column.
        """
        self._path = path
        self._listing = FileListing(path, SUFFIXES, "Parquet")
        self.grows = self._listing.grows
        first = self._listing.files[0]
        present = normal_schema(_read_schema(first))
        self._schema = present if schema is None else normal_schema(schema)
        _check_columns(first, present, self._schema)
        self._full = self._schema
        self._predicate: Expr | None = None
        self._time: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The declared fields or those of the first file, or those left after `restrict`."""
        return self._schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name one partition per file, or shares of their row groups if there are fewer than ``parallelism``."""
        return self._listing.partitions(parallelism)

    def open(self, partition: str, position: Any | None) -> Reader:
        """Open one partition."""
        time = None if self._time is None else self._full.field(self._time)
        known = None if position is None else read_position(self, position, ParquetPosition)
        files = self._listing.partition(partition, None if known is None else known.mark)
        return ParquetReader(files, self._schema, self._full, self._predicate, time, known)

    def partitions_after(self, positions: Mapping[str, Any]) -> Sequence[str]:
        """Name one partition per new file."""
        return self._listing.partitions_after(self, positions)

    def up_to(self, positions: Mapping[str, Any]) -> "ParquetSource":
        """Return a source of the files that were known."""
        changed = copy(self)
        changed._listing = self._listing.up_to(self, positions)
        return changed

    def begin_run(self) -> None:
        """List the files anew."""
        self._listing.begin_run()

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> "ParquetSource":
        """Read only these columns, and no row groups whose statistics rule the predicate out."""
        changed = copy(self)
        changed._schema = pa.schema([self._schema.field(name) for name in columns])
        if predicate is not None:
            changed._predicate = predicate
        return changed

    def with_time(self, column: str) -> "ParquetSource":
        """Report the time of row groups that are left out by this column's statistics, be it read or not."""
        changed = copy(self)
        changed._time = column
        return changed

    def describe(self) -> str:
        """Name the path."""
        return f"Parquet {self._path}"


def _read_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{str(path)!r} cannot be read as Parquet: {error}") from None


def _check_columns(path: Path, present: pa.Schema, wanted: pa.Schema) -> None:
    for name in wanted.names:
        if name not in present.names:
            close = difflib.get_close_matches(name, present.names, n=3)
            hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"it has {', '.join(present.names)}"
            raise SchemaError(f"{str(path)!r} has no column {name!r}; {hint}")
