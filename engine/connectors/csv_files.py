"""CSV as a source: one record per line, in files of any size. Built by the DSL's readers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from penstock.engine.connectors.csv_decode import CsvDecoder, read_header
from penstock.engine.connectors.file_chunks import chunks_of, first_block
from penstock.engine.connectors.line_reader import LineReader
from penstock.engine.connectors.partitions import file_partition, file_partitions
from penstock.engine.connectors.paths import find_files
from penstock.engine.connectors.text_values import infer_type
from penstock.model.connectors import Reader, Source
from penstock.model.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from penstock.model.expressions import Expr

SUFFIXES = (".csv", ".tsv", ".txt")


class CsvSource(Source):
    """Records of a file, a directory or a glob, one per line; quoted values may not hold line breaks.

    Times are ISO 8601 or epoch milliseconds. Lines that do not fit become raw records; empty lines count for nothing.
    Every file is a partition with a watermark of its own, so files may overlap in time; each should be in order. Of
    more than 256, neighbours by name are read one after another in one partition and should follow each other in time.
    """

    def __init__(
        self, path: str | Path, schema: pa.Schema | None = None, *, delimiter: str = ",", header: bool = True
    ) -> None:
        """Look up the files; without a schema, infer it from the first megabyte. Without a header it gives the order.

        Raises:
            UserError: there is no such file.
            SchemaError: a type cannot be read from CSV, a column is not in the first file, nothing can be inferred.
            OptionError: the delimiter is not one character, or there is neither header nor schema.
        """
        if len(delimiter) != 1:
            raise OptionError(f"delimiter of CSV {str(path)!r} must be one character, not {delimiter!r}")
        if schema is None and not header:
            raise OptionError(f"CSV {str(path)!r} without a header needs schema=... to name its columns")
        self._path = path
        self._delimiter = delimiter
        self._files = find_files(path, SUFFIXES, "CSV")
        self._schema = schema if schema is not None else _infer(self._files, str(path), delimiter)
        self._names = None if header else self._schema.names
        self._time: str | None = None
        self._decoder().start_file(self._files[0])

    @property
    def schema(self) -> pa.Schema:
        """The declared or inferred fields, or those left after `restrict`."""
        return self._schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name one partition per file, or shares of their chunks if there are fewer than ``parallelism``."""
        return file_partitions(self._files, parallelism)

    def open(self, partition: str, position: Any | None) -> Reader:
        """Open one partition."""
        chunks = chunks_of(file_partition(self._files, partition))
        return LineReader(chunks, self._decoder(), self._time, position)

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> "CsvSource":
        """Convert only these columns; predicates are of no help here."""
        return self._changed(schema=pa.schema([self._schema.field(name) for name in columns]))

    def with_time(self, column: str) -> "CsvSource":
        """Make lines without a usable event time bad records."""
        return self._changed(time=column)

    def describe(self) -> str:
        """Name the path."""
        return f"CSV {self._path}"

    def _decoder(self) -> CsvDecoder:
        return CsvDecoder(self._schema, self._names, self._delimiter)

    def _changed(self, schema: pa.Schema | None = None, time: str | None = None) -> "CsvSource":
        copy = object.__new__(CsvSource)
        copy.__dict__.update(self.__dict__)
        copy._schema = self._schema if schema is None else schema
        copy._time = time or self._time
        if copy._time not in copy._schema.names:
            copy._time = None
        return copy


def _infer(files: Sequence[Path], path: str, delimiter: str) -> pa.Schema:
    found = first_block(files)
    if found is None:
        raise SchemaError(f"every file of {path!r} is empty, so its columns cannot be inferred; give schema=...")
    file, block = found
    names, first_byte = read_header(file, delimiter)
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise SchemaError(f"{str(file)!r} has two columns {repeated[0]!r}; every column needs its own name")
    texts = CsvDecoder(pa.schema([(name, pa.string()) for name in names]), names, delimiter)
    lines = texts.well_formed(block[first_byte:])
    if not lines:
        raise SchemaError(f"{str(file)!r} begins with no record of {len(names)} values; give schema=...")
    block = b"\n".join(lines) + b"\n"
    table = pa.csv.read_csv(
        pa.BufferReader(block),
        read_options=pa.csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter),
        convert_options=pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
    )
    return pa.schema([pa.field(name, infer_type(table[name], name)) for name in table.schema.names])
