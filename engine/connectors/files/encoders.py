"""Encoders of rows as one Parquet, JSON-lines or CSV file. Called by the writers of `files.sinks`."""

from abc import ABC, abstractmethod
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from penstock.engine.connectors.text.row_text import base64_texts, encode_lines, json_texts

ROW_GROUP_ROWS = 131_072
"""Rows of a Parquet row group, so that readers can skip and share them."""

ROW_GROUP_BYTES = 64 << 20
"""Bytes after which a row group is written although it has fewer rows."""


class Encoder(ABC):
    """Writes rows of one schema into one stream, which it leaves open."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        """Write what stands before the first row."""
        self.stream = stream
        self.schema = schema

    @abstractmethod
    def write(self, rows: pa.RecordBatch) -> None:
        """Encode rows."""

    def finish(self) -> None:
        """Write what is left, so that the file can be read. By default nothing is."""

    def abandon(self) -> None:
        """Forget what is left: the file is not wanted."""


class ParquetEncoder(Encoder):
    """Gathers batches into row groups."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        """Begin the file."""
        super().__init__(stream, schema)
        self._writer = pq.ParquetWriter(stream, schema)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Keep rows until they make a row group."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        """Write the last row group and the footer."""
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Write no footer."""
        self._waiting.clear()
        self._writer.is_open = False

    def _write_group(self) -> None:
        if self._rows:
            table = pa.Table.from_batches(self._waiting, self.schema)
            self._writer.write_table(table, row_group_size=max(self._rows, 1))
        self._waiting, self._rows, self._bytes = [], 0, 0


class JsonLinesEncoder(Encoder):
    """Writes a JSON object per row."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode and write."""
        self.stream.write(encode_lines(rows))


class CsvEncoder(Encoder):
    """Writes a header and a line per row; nested values as JSON, bytes as base64.

    Text stands in quotes, so that empty is not null.
    """

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        """Write the header."""
        super().__init__(stream, schema)
        fields = [field if _is_flat(field.type) else pa.field(field.name, pa.string()) for field in schema]
        self._flat = pa.schema(fields)
        self._writer = pa.csv.CSVWriter(stream, self._flat)

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode and write."""
        columns = [column if _is_flat(column.type) else _cell_texts(column) for column in rows.columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._flat))

    def finish(self) -> None:
        """Write what the encoder holds."""
        self._writer.close()


def _is_flat(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _cell_texts(column: pa.Array) -> pa.Array:
    if not pa.types.is_nested(column.type):
        return base64_texts(column)
    return pc.if_else(column.is_valid(), json_texts(column), None)
