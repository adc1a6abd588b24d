"""Decodes CSV with pyarrow: blocks at once, and by halves down to the records that do not fit.

To pyarrow a quoted value that is not closed goes on over the lines after it. So rows are counted against lines, with a
copy of the last line behind it, which could be the one; what is no row a line is cut into records first.
"""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from penstock.engine.connectors.files.paths import check_columns
from penstock.engine.connectors.text.bisect_rows import convert_rows
from penstock.engine.connectors.text.line_reader import BYTE_ORDER_MARK, QuotedDecoder
from penstock.engine.connectors.text.quoted_records import Quoting, Records, record_bytes
from penstock.engine.connectors.text.text_values import wire_field, wire_rows
from penstock.engine.kernels.quoted_records import UNCLOSED
from penstock.model.errors import SchemaError

_FLAW = "a quoted value does not end on its line, nor does it go on to a quotation mark at the end of a value"
_RETURN = "a carriage return stands inside the line"
_HEADER_BYTES = 1 << 20
_WRONG_COUNT = re.compile(r"^CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)")
_COLUMN_NUMBER = re.compile(r"^In CSV column #(\d+): (?:Row #\d+: )?")


class CsvDecoder(QuotedDecoder):
    """Decodes the columns of a schema out of records with a header, or without one (then in the order of ``names``).

    A value that is empty and not in quotes is null.
    """

    blank = b"\r"

    def __init__(self, schema: pa.Schema, names: Sequence[str] | None, delimiter: str) -> None:
        """Raise `SchemaError` for types that CSV cannot hold."""
        self._schema = schema
        self._has_header = names is None
        self._names = list(names or schema.names)
        self._delimiter = delimiter
        self.quoting = Quoting(delimiter)
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
            return super().start_file(path)
        names, first_byte = read_header(path, self._delimiter)
        if names:
            check_columns(path, names, self._schema.names)
        self._names = names
        return first_byte

    def well_formed(self, block: bytes, *, final: bool) -> list[bytes]:
        """Return the records of a block that decode; unless it is ``final``, without one that may go on behind it."""
        records = self.quoting.records(block, final=final).of(block)
        wrong = {index for index, _ in self.decode_each(records)[1]}
        return [record for index, record in enumerate(records) if index not in wrong]

    def decode_block(self, block: bytes) -> pa.RecordBatch | None:
        """Decode a block of one row a line."""
        if not block.endswith(b"\n"):
            block += b"\n"
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            return None
        block = _without_blank_lines(block)
        lines = block.count(b"\n")
        try:
            if b'"' not in block:
                return self._parse(block, lines)
            return self._parse(block + block[block.rfind(b"\n", 0, -1) + 1 :], lines, extra=1)
        except pa.ArrowInvalid:
            return None

    def decode_records(self, block: bytes, records: Records) -> pa.RecordBatch | None:
        """Decode the records of a block, all of which are closed."""
        if int((records.ends - records.starts).sum()) != len(block):
            block = b"\n".join(records.of(block)) + b"\n"
        elif not block.endswith(b"\n"):
            block += b"\n"
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            return None
        try:
            return self._parse(block, len(records.starts))
        except pa.ArrowInvalid:
            return None

    def decode_each(self, lines: Sequence[bytes]) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
        """Decode record by record where it must be."""
        flaws = self.quoting.flaws(lines)
        if not flaws.any():
            return convert_rows(lines, self._parse_records, self._schema)
        sound = np.flatnonzero(flaws == 0).tolist()
        rows, errors = convert_rows([lines[index] for index in sound], self._parse_records, self._schema)
        reasons = [(sound[index], reason) for index, reason in errors]
        reasons += [(index, _FLAW if flaws[index] == UNCLOSED else _RETURN) for index in np.flatnonzero(flaws).tolist()]
        return rows, sorted(reasons)

    def _parse_records(self, records: Sequence[bytes]) -> pa.RecordBatch:
        return self._parse(b"\n".join(records) + b"\n", len(records))

    def _parse(self, block: bytes, records: int, extra: int = 0) -> pa.RecordBatch:
        """Raise `pa.ArrowInvalid` unless each of ``records`` and ``extra`` records is exactly one good row.

        The extra ones are left out.
        """
        if records == 0:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        try:
            table = read_csv(block, self._names, self._delimiter, self._convert)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(self._reason(str(error))) from None
        if table.num_rows != records + extra:
            raise pa.ArrowInvalid("not every record is one row")
        return wire_rows(table.slice(0, records) if extra else table, self._schema)

    def _reason(self, message: str) -> str:
        """Shorten pyarrow's message; name the column instead of its number."""
        match = _WRONG_COUNT.match(message)
        if match is not None:
            return f"expected {match[1]} values, got {match[2]}"
        match = _COLUMN_NUMBER.match(message)
        if match is None or int(match[1]) >= len(self._names):
            return message
        return f"column {self._names[int(match[1])]!r}: {message[match.end() :]}"


def read_csv(block: bytes, names: Sequence[str], delimiter: str, convert: pa.csv.ConvertOptions) -> pa.Table:
    """Read a block without a header by pyarrow.

    Raises:
        pa.ArrowInvalid: a record has more or fewer values than there are ``names``, or one does not convert.
    """
    return pa.csv.read_csv(
        pa.BufferReader(block),
        read_options=pa.csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=convert,
    )


def read_header(path: Path, delimiter: str) -> tuple[list[str], int]:
    """Return the names in a file's first record, and where what follows begins; no names if the file is empty."""
    with path.open("rb") as file:
        line = file.readline(_HEADER_BYTES)
        more = file.read(record_bytes()) if b'"' in line else b""
    skipped = len(BYTE_ORDER_MARK) if line.startswith(BYTE_ORDER_MARK) else 0
    line = line[skipped:]
    records = Quoting(delimiter).records(line + more, final=len(more) < record_bytes())
    if len(records.starts) and records.starts[0] == 0:
        line = (line + more)[: records.ends[0]]
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return next(csv.reader([text], delimiter=delimiter), []), skipped + len(line)


def _without_blank_lines(block: bytes) -> bytes:
    if not (block.startswith((b"\n", b"\r\n")) or b"\n\n" in block or b"\n\r\n" in block):
        return block
    return b"".join(line for line in block.splitlines(keepends=True) if line.strip(b"\r\n"))
