"""The base of sources with one record per line, whatever the format: files, partitions, columns, event time.

The CSV and JSON lines sources build on it.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from penstock.engine.connectors.files.listing import FileListing
from penstock.engine.connectors.positions import read_position
from penstock.engine.connectors.text.line_reader import LineDecoder, LinePosition, LineReader
from penstock.model.connectors import Reader, Source

if TYPE_CHECKING:
    from penstock.model.expressions import Expr


class LineSource(Source):
    """Records of files, one per line. Lines that do not fit become raw records."""

    def __init__(self, listing: FileListing, schema: pa.Schema) -> None:
        """Take the files and the fields to read."""
        self._listing = listing
        self.grows = listing.grows
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
        return self._listing.partitions(parallelism)

    def open(self, partition: str, position: Any | None) -> Reader:
        """Open one partition."""
        known = None if position is None else read_position(self, position, LinePosition)
        files = self._listing.partition(partition, None if known is None else known.mark)
        return LineReader(files, self.decoder(), self._time, known)

    def partitions_after(self, positions: Mapping[str, Any]) -> Sequence[str]:
        """Name one partition per new file."""
        return self._listing.partitions_after(self, positions)

    def up_to(self, positions: Mapping[str, Any]) -> Self:
        """Return a source of the files that were known."""
        copy = self._changed(self._schema, self._time)
        copy._listing = self._listing.up_to(self, positions)
        return copy

    def begin_run(self) -> None:
        """List the files anew."""
        self._listing.begin_run()

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
