"""The base of sources with one record per line, whatever the format.

The CSV and JSON lines sources build on it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from penstock.engine.connectors.files.source import FileSource
from penstock.engine.connectors.positions import read_position
from penstock.engine.connectors.text.line_reader import LineDecoder, LinePosition, LineReader
from penstock.model.connectors import Reader

if TYPE_CHECKING:
    from penstock.model.expressions import Expr


class LineSource(FileSource):
    """Records of files, one per line. Lines that do not fit become raw records."""

    @abstractmethod
    def decoder(self) -> LineDecoder:
        """Make a decoder of lines into rows of `schema`."""

    def open(self, partition: str, position: Any | None) -> Reader:
        """Open one partition."""
        start = None if position is None else read_position(self, position, LinePosition)
        files = self._listing.partition(partition, None if start is None else start.mark)
        return LineReader(files, self.decoder(), self._time, start)

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> Self:
        """Convert only these columns; predicates are of no help here."""
        return self._changed(pa.schema([self._schema.field(name) for name in columns]), self._time)

    def with_time(self, column: str) -> Self:
        """Make lines without a usable event time bad records."""
        return self._changed(self._schema, column)

    def _changed(self, schema: pa.Schema, time: str | None) -> Self:
        changed = copy(self)
        changed._schema = schema
        changed._time = time if time in schema.names else None
        return changed
