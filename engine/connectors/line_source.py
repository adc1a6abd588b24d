"""What sources of one record per line have in common, whatever the format: files, partitions, columns, event time.

The CSV and JSON lines sources build on it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from penstock.engine.connectors.file_positions import restored_partition
from penstock.engine.connectors.line_reader import LineDecoder, LinePosition, LineReader
from penstock.engine.connectors.partitions import file_partition, file_partitions, file_partitions_since
from penstock.engine.connectors.positions import read_position
from penstock.model.connectors import Reader, Source

if TYPE_CHECKING:
    from penstock.model.expressions import Expr


class LineSource(Source):
    """Records of files, one per line. Lines that do not fit become raw records."""

    def __init__(self, files: Sequence[Path], schema: pa.Schema) -> None:
        """Take the files, in order, and the fields to read."""
        self._files = files
        self._schema = schema
        self._time: str | None = None

    @abstractmethod
    def decoder(self) -> LineDecoder:
        """Make a decoder of lines into rows of `schema`."""

    @property
    def schema(self) -> pa.Schema:
        """The declared or inferred fields, or those left after `restrict`."""
        return self._schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name one partition per file, or shares of their chunks if there are fewer than ``parallelism``."""
        return file_partitions(self._files, parallelism)

    def open(self, partition: str, position: Any | None) -> Reader:
        """Open one partition."""
        if position is None:
            return LineReader(file_partition(self._files, partition), self.decoder(), self._time, None)
        known = read_position(self, position, LinePosition)
        files = restored_partition(self._files, partition, known.mark)
        return LineReader(files, self.decoder(), self._time, known)

    def partitions_since(self, known: Sequence[str]) -> Sequence[str]:
        """Name one partition per new file."""
        return file_partitions_since(self._files, known)

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> Self:
        """Convert only these columns; predicates are of no help here."""
        return self._changed(pa.schema([self._schema.field(name) for name in columns]), self._time)

    def with_time(self, column: str) -> Self:
        """Make lines without a usable event time bad records."""
        return self._changed(self._schema, column)

    def _changed(self, schema: pa.Schema, time: str | None) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._schema = schema
        copy._time = time if time in schema.names else None
        return copy
