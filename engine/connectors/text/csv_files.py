"""CSV as a source, in files of any size. Built by the DSL's readers."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from penstock.engine.connectors.files.chunks import first_block
from penstock.engine.connectors.text.csv_decode import CsvDecoder, read_csv, read_header
from penstock.engine.connectors.text.line_source import LineSource
from penstock.engine.connectors.text.text_values import infer_type
from penstock.model.errors import OptionError, SchemaError


class CsvSource(LineSource):
    """Records of a file, a directory or a glob, one per line; a quoted value may hold line breaks.

    A record of several lines has a megabyte at the most. A line whose quoted value does not end within that, or ends
    before anything but a delimiter or a line break, is a bad record, and the next line is one of its own again.
    Times are ISO 8601 or epoch milliseconds. Records that do not fit become raw records; empty lines count for nothing.
    Every file is a partition with a watermark of its own, so files may overlap in time; each should be in order. Of
    more than 256, neighbours by name are read one after another in one partition and should follow each other in time.
    """

    format = "CSV"
    suffixes = (".csv", ".tsv", ".txt")

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
        super().__init__(path)
        files = self._listing.files
        self._schema = schema if schema is not None else _infer(files, str(path), delimiter)
        self._delimiter = delimiter
        self._names = None if header else self._schema.names
        self.decoder().start_file(files[0])

    def decoder(self) -> CsvDecoder:
        """Make a decoder, which finds the columns in each file's header if it has one."""
        return CsvDecoder(self._schema, self._names, self._delimiter)


def _infer(files: Sequence[Path], path: str, delimiter: str) -> pa.Schema:
    first = first_block(files)
    if first is None:
        raise SchemaError(f"every file of {path!r} is empty, so its columns cannot be inferred; give schema=...")
    file, block = first
    names, first_byte = read_header(file, delimiter)
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise SchemaError(f"{str(file)!r} has two columns {repeated[0]!r}; every column needs its own name")
    texts = CsvDecoder(pa.schema([(name, pa.string()) for name in names]), names, delimiter)
    records = texts.well_formed(block[first_byte:], final=len(block) == file.stat().st_size)
    if not records:
        raise SchemaError(f"{str(file)!r} begins with no record of {len(names)} values; give schema=...")
    empty_is_null = pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    table = read_csv(b"\n".join(records) + b"\n", names, delimiter, empty_is_null)
    return pa.schema([pa.field(name, infer_type(table[name], name)) for name in table.schema.names])
