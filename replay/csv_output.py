"""CSV as our sink writes it, read again as a whole: an empty line is a row, which sources pass over.

Called by `stream_output`; `bounded_source` reads it in Spark's workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.types as pt

from penstock.engine.connectors.text.text_values import from_wire, wire_field
from penstock.model.connectors import ENDED, Read, Reader, Source
from penstock.model.errors import SchemaError


class CsvOutput(Source):
    """The rows of one file; a value that is empty and not in quotes is null."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Check that the columns can be read.

        Raises:
            SchemaError: one is nested or bytes, which stand there as text, or of a type that cannot be read.
        """
        for field in schema:
            if pt.is_nested(field.type) or pt.is_binary(field.type) or pt.is_fixed_size_binary(field.type):
                raise SchemaError(f"column {field.name!r} is {field.type}, which CSV holds as text: write Parquet")
        self._path, self._schema = path, schema
        self._wire = pa.schema([wire_field(field) for field in schema])

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name the file."""
        return [str(self._path)]

    def open(self, partition: str, position: Any | None) -> Reader:
        """Begin to read."""
        return _Reader(self._path, self._schema, self._wire)

    def describe(self) -> str:
        """Name the path."""
        return f"CSV {self._path}"


class _Reader(Reader):
    def __init__(self, path: Path, schema: pa.Schema, wire: pa.Schema) -> None:
        self._schema = schema
        self._batches = pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(use_threads=False),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=pa.csv.ConvertOptions(
                column_types=wire,
                include_columns=wire.names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def read(self, max_rows: int) -> Read:
        """Return a block of the file, whatever ``max_rows`` is."""
        try:
            rows = self._batches.read_next_batch()
        except StopIteration:
            return ENDED
        columns = [from_wire(rows.column(field.name), field.type) for field in self._schema]
        return Read(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def position(self) -> Any:
        """Return nothing: it is read from the beginning."""
        return None

    def close(self) -> None:
        """Close the file."""
        self._batches.close()
