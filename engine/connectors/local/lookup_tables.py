"""Side tables for `Stream.lookup`: what a source holds, or what a function returns, read as a whole."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.local.memory import MemorySource
from penstock.engine.connectors.normalise import to_schema
from penstock.model.connectors import Read, Source
from penstock.model.errors import BadRecordError, SchemaError
from penstock.model.lookup_tables import LookupTable

_READ_ROWS = 65_536


class SourceTable(LookupTable):
    """All rows of a bounded source, such as a file; a bad record refuses the whole table."""

    def __init__(self, source: Source, refresh_us: int | None = None) -> None:
        """Read ``source`` again every ``refresh_us`` microseconds, if given."""
        self._source = source
        self.refresh_us = refresh_us

    @property
    def schema(self) -> pa.Schema:
        """The source's columns."""
        return self._source.schema

    def load(self) -> pa.Table:
        """Read the source to its end.

        Raises:
            BadRecordError: a record cannot be read.
        """
        batches = []
        for partition in self._source.partitions(1):
            reader = self._source.open(partition, None)
            try:
                read = Read()
                while not read.ended:
                    read = reader.read(_READ_ROWS)
                    self._refuse(read)
                    if read.rows is not None:
                        batches.append(read.rows)
            finally:
                reader.close()
        return pa.Table.from_batches(batches, self.schema)

    def local_files(self) -> Sequence[Path]:
        """Return those of the source."""
        return self._source.local_files()

    def describe(self) -> str:
        """Name the source."""
        return self._source.describe()

    def _refuse(self, read: Read) -> None:
        if read.rejected:
            record = read.rejected[0]
            raise BadRecordError(
                f"the lookup table from {self.describe()} has a bad record at {record.position}: {record.error}; "
                "correct it, for a table with holes would give wrong answers"
            )


class FunctionTable(LookupTable):
    """A table that a function returns: anything with the Arrow PyCapsule interface, or a list of dicts."""

    def __init__(
        self, function: Callable[[], Any], schema: pa.Schema | None = None, refresh_us: int | None = None
    ) -> None:
        """Without ``schema`` the function is called once now, to learn the columns.

        Raises:
            SchemaError: it returned no table.
        """
        self._function = function
        self.refresh_us = refresh_us
        self._schema = schema if schema is not None else MemorySource(function()).schema

    @property
    def schema(self) -> pa.Schema:
        """The columns given, or those of the first call."""
        return self._schema

    def load(self) -> pa.Table:
        """Call the function.

        Raises:
            SchemaError: what it returned is no table with these columns.
        """
        try:
            table = SourceTable(MemorySource(self._function())).load()
            return pa.Table.from_batches([to_schema(rows, self._schema) for rows in table.to_batches()], self._schema)
        except SchemaError as error:
            raise SchemaError(f"the lookup table from {self.describe()} cannot be used: {error}") from error

    def describe(self) -> str:
        """Name the function."""
        return f"function {getattr(self._function, '__name__', type(self._function).__name__)}"
