"""Parquet as a source: only the wanted columns, without the row groups that a predicate rules out.

Built by the DSL's readers.
"""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.connectors.arrow_capsule import normal_schema
from penstock.engine.connectors.files.paths import check_columns
from penstock.engine.connectors.files.source import FileSource
from penstock.engine.connectors.parquet.reader import ParquetPosition, ParquetReader
from penstock.engine.connectors.positions import read_position
from penstock.model.connectors import Reader
from penstock.model.errors import UserError

if TYPE_CHECKING:
    from penstock.model.expressions import Expr


class ParquetSource(FileSource):
    """The rows of a file, a directory or a glob.

    Every file is a partition with a watermark of its own, so files may overlap in time; each should be in order. Of
    more than 256, neighbours by name are read one after another in one partition and should follow each other in time.
    With fewer files than instances, the row groups of each are dealt out in turn, so that they advance together.
    """

    format = "Parquet"
    suffixes = (".parquet", ".pq")

    def __init__(self, path: str | Path, schema: pa.Schema | None = None) -> None:
        """Look up the files; without a schema it is the first file's, otherwise its columns are read in its types.

        Raises:
            UserError: there is no such file, or it is not Parquet.
            SchemaError: the first file lacks a column.
        """
        super().__init__(path)
        first = self._listing.files[0]
        present = normal_schema(_read_schema(first))
        self._schema = present if schema is None else normal_schema(schema)
        check_columns(first, present.names, self._schema.names)
        self._full = self._schema
        self._predicate: Expr | None = None

    def open(self, partition: str, position: Any | None) -> Reader:
        """Open one partition."""
        time = None if self._time is None else self._full.field(self._time)
        start = None if position is None else read_position(self, position, ParquetPosition)
        files = self._listing.partition(partition, None if start is None else start.mark)
        return ParquetReader(files, self._schema, self._full, self._predicate, time, start)

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


def _read_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{str(path)!r} cannot be read as Parquet: {error}") from None
