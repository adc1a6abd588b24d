"""Decodes CSV lines with pyarrow: blocks at once, and by halves down to the lines that do not fit.

A quoted value that is not closed swallows the lines after it, so rows are counted against lines, and a copy of the
last line is appended where it could be the one.
"""

import csv
import difflib
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from penstock.engine.connectors.bisect_rows import convert_rows
from penstock.engine.connectors.line_reader import LineDecoder
from penstock.engine.connectors.text_values import from_wire, wire_field
from penstock.model.errors import SchemaError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEADER_BYTES = 1 << 20
_WRONG_COUNT = re.compile(r"^CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)")
_COLUMN_NUMBER = re.compile(r"^In CSV column #(\d+): (?:Row #\d+: )?")


class CsvDecoder(LineDecoder):
    """Decodes the columns of a schema out of lines with a header, or without one (then in the order of ``names``).

    A value that is empty and not in quotes is null.
    """

    blank = b"\r"

    def __init__(self, schema: pa.Schema, names: Sequence[str] | None, delimiter: str) -> None:
        """Raise `SchemaError` for types that CSV cannot hold."""
        self._schema = schema
        self._has_header = names is None
        self._names = list(names or schema.names)
        self._delimiter = delimiter
        nested = [field for field in schema if pa.types.is_nested(field.type)]
        if nested:
            raise SchemaError(
                f"column {nested[0].name!r}: {nested[0].type} cannot be read from CSV; use JSON or Parquet"
            )
        wire = [wire_field(field) for field in schema]
        self._convert = pa.csv.ConvertOptions(
            column_types={field.name: field.type for field in wire},
            include_columns=schema.names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def start_file(self, path: Path) -> int:
        """Read the header."""
        if not self._has_header:
            return _mark_bytes(path)
        names, first_byte = read_header(path, self._delimiter)
        missing = [name for name in self._schema.names if name not in names]
        if missing and names:
            close = difflib.get_close_matches(missing[0], names, n=3)
            hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"it has {', '.join(names)}"
            raise SchemaError(f"{str(path)!r} has no column {missing[0]!r}; {hint}")
        self._names = names
        return first_byte

    def well_formed(self, block: bytes) -> list[bytes]:
        """Return the lines of a block that decode."""
        lines = [line.rstrip(b"\r") for line in block.split(b"\n") if line.strip(self.blank)]
        wrong = {index for index, _ in self.decode_each(lines)[1]}
        return [line for index, line in enumerate(lines) if index not in wrong]

    def decode_block(self, block: bytes) -> pa.RecordBatch | None:
        """Decode a block."""
        if not block.endswith(b"\n"):
            block += b"\n"
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            return None
        block = _without_blank_lines(block)
        try:
            return self._parse(block, block.count(b"\n"))
        except pa.ArrowInvalid:
            return None

    def decode_each(self, lines: Sequence[bytes]) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
        """Decode line by line where it must be."""
        return convert_rows(lines, self._parse_lines, self._schema)

    def _parse_lines(self, lines: Sequence[bytes]) -> pa.RecordBatch:
        for line in lines:
            if b"\r" in line:
                raise pa.ArrowInvalid("a carriage return stands inside the line")
        return self._parse(b"\n".join(lines) + b"\n", len(lines))

    def _parse(self, block: bytes, lines: int) -> pa.RecordBatch:
        """Raise `pa.ArrowInvalid` unless each of ``lines`` lines is exactly one good row."""
        if lines == 0:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        extra = 0
        if b'"' in block:
            block += block[block.rfind(b"\n", 0, -1) + 1 :]
            extra = 1
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(block),
                read_options=pa.csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=self._names),
                parse_options=pa.csv.ParseOptions(delimiter=self._delimiter),
                convert_options=self._convert,
            )
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(self._reason(str(error))) from None
        if table.num_rows != lines + extra:
            raise pa.ArrowInvalid("a quoted value does not end on its line")
        columns = [from_wire(_combined(table[field.name], lines), field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _reason(self, message: str) -> str:
        """Shorten pyarrow's message; name the column instead of its number."""
        found = _WRONG_COUNT.match(message)
        if found is not None:
            return f"expected {found[1]} values, got {found[2]}"
        found = _COLUMN_NUMBER.match(message)
        if found is None or int(found[1]) >= len(self._names):
            return message
        return f"column {self._names[int(found[1])]!r}: {message[found.end() :]}"


def read_header(path: Path, delimiter: str) -> tuple[list[str], int]:
    """Return the names in a file's first line, and where its second begins; no names if the file is empty."""
    with path.open("rb") as file:
        line = file.readline(_HEADER_BYTES)
        end = file.tell()
    text = line.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace").rstrip("\r\n")
    return next(csv.reader([text], delimiter=delimiter), []), end


def _mark_bytes(path: Path) -> int:
    with path.open("rb") as file:
        return 3 if file.read(3) == _BYTE_ORDER_MARK else 0


def _without_blank_lines(block: bytes) -> bytes:
    if not (block.startswith((b"\n", b"\r\n")) or b"\n\n" in block or b"\n\r\n" in block):
        return block
    return b"".join(line for line in block.splitlines(keepends=True) if line.strip(b"\r\n"))


def _combined(column: pa.ChunkedArray, rows: int) -> pa.Array:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return array if len(array) == rows else array.slice(0, rows)
