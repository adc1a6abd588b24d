"""Sinks that write Parquet, JSON lines and CSV. Built by the DSL's ``write_...`` methods.

Each instance writes one file, which appears under its name when the job has ended; a job that fails leaves none.
"""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from penstock.engine.connectors.finished_files import FinishedFile, output_path, remove_other_parts
from penstock.engine.connectors.row_text import base64_texts, encode_lines, json_texts
from penstock.model.connectors import Sink, Writer

ROW_GROUP_ROWS = 131_072
"""Rows of a Parquet row group, so that readers can skip and share them."""

ROW_GROUP_BYTES = 64 << 20
"""Bytes after which a row group is written although it has fewer rows."""


class FileSink(Sink):
    """What the file sinks share: ``path`` is a file if it has a suffix and there is one instance, else a directory.

    An existing file is replaced once the new one is complete, so are the parts of an earlier run in a directory.
    """

    suffix: ClassVar[str]
    writer: ClassVar[type["FileWriter"]]

    def __init__(self, path: str | Path) -> None:
        """Nothing is written yet."""
        self._path = Path(path).expanduser()

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Begin the instance's file.

        Raises:
            UserError: the file cannot be written.
        """
        target = output_path(self._path, self.suffix, instance, parallelism)
        writer = self.writer(FinishedFile(target), schema)
        if target != self._path and instance == 0:
            writer.committed = lambda: remove_other_parts(self._path, self.suffix, parallelism)
        return writer

    def describe(self) -> str:
        """Name the path."""
        return f"write {self._path}"


class FileWriter(Writer):
    """Writes one file."""

    def __init__(self, file: FinishedFile, schema: pa.Schema) -> None:
        """Write rows of ``schema``; call ``committed`` when the file is in place."""
        self.file = file
        self.schema = schema
        self.committed: Callable[[], None] | None = None

    @abstractmethod
    def finish(self) -> None:
        """Write what is left."""

    def flush(self) -> None:
        """Hand what is encoded to the system."""
        self.file.stream.flush()

    def close(self) -> None:
        """Complete the file and put it in place."""
        try:
            self.finish()
            self.file.commit()
        except BaseException:
            self.file.discard()
            raise
        if self.committed is not None:
            self.committed()

    def abort(self) -> None:
        """Remove the file."""
        self.file.discard()


class ParquetWriter(FileWriter):
    """Gathers batches into row groups."""

    def __init__(self, file: FinishedFile, schema: pa.Schema) -> None:
        """Open the file."""
        super().__init__(file, schema)
        self._writer = pq.ParquetWriter(file.stream, schema)
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

    def abort(self) -> None:
        """Remove the file."""
        self._waiting.clear()
        self._writer.is_open = False
        super().abort()

    def _write_group(self) -> None:
        if self._rows:
            table = pa.Table.from_batches(self._waiting, self.schema)
            self._writer.write_table(table, row_group_size=max(self._rows, 1))
        self._waiting, self._rows, self._bytes = [], 0, 0


class JsonLinesWriter(FileWriter):
    """Writes a JSON object per row."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode and write."""
        self.file.stream.write(encode_lines(rows))

    def finish(self) -> None:
        """Nothing is left."""


class CsvWriter(FileWriter):
    """Writes a header and a line per row; nested values as JSON, bytes as base64.

    Text stands in quotes, so that empty is not null.
    """

    def __init__(self, file: FinishedFile, schema: pa.Schema) -> None:
        """Write the header."""
        super().__init__(file, schema)
        fields = [field if _is_flat(field.type) else pa.field(field.name, pa.string()) for field in schema]
        self._flat = pa.schema(fields)
        self._writer = pa.csv.CSVWriter(file.stream, self._flat)

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode and write."""
        columns = [column if _is_flat(column.type) else _cell_texts(column) for column in rows.columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._flat))

    def finish(self) -> None:
        """Write what the encoder holds."""
        self._writer.close()


class ParquetSink(FileSink):
    """Writes Parquet."""

    suffix = ".parquet"
    writer = ParquetWriter


class JsonLinesSink(FileSink):
    """Writes JSON lines: NaN and infinities as null, times as ISO 8601, bytes as base64."""

    suffix = ".jsonl"
    writer = JsonLinesWriter


class CsvSink(FileSink):
    """Writes CSV with a header; missing values are empty."""

    suffix = ".csv"
    writer = CsvWriter


def _is_flat(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _cell_texts(column: pa.Array) -> pa.Array:
    if not pa.types.is_nested(column.type):
        return base64_texts(column)
    return pc.if_else(column.is_valid(), json_texts(column), None)
