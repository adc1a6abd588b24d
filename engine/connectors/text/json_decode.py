"""Decodes JSON lines: pyarrow for blocks, msgspec for the lines of a block that pyarrow refuses.

pyarrow alone shifts rows when a line holds two documents and crashes on a line ``null``, so a block is checked first:
if every line begins with ``{`` and ends with ``}``, there are at least as many documents as lines.
"""

import decimal
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json

from penstock.engine.connectors.text.bisect_rows import convert_rows
from penstock.engine.connectors.text.line_reader import LineDecoder
from penstock.engine.connectors.text.required_fields import RequiredFields, missing_sentence
from penstock.engine.connectors.text.text_values import from_wire, to_column, wire_field, wire_rows
from penstock.engine.kernels.json_numbers import may_hold_no_number
from penstock.model.schema import FieldPath

_INT64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_KEPT = (decimal.Decimal,)
_OPEN, _CLOSE, _RETURN, _LINE_END = b"{}\r\n"


class JsonDecoder(LineDecoder):
    """Decodes objects into the fields of a schema. A missing field is null unless it is required.

    Fields that are not in the schema are passed over; with ``strict`` no object has any. Of a name that appears twice
    the last value counts. NaN and Infinity are not JSON.
    """

    blank = b" \t\r"

    def __init__(
        self,
        schema: pa.Schema,
        required: Collection[FieldPath] = (),
        *,
        strict: bool = False,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Look at all fields of a schema, and return those that are ``columns`` (None: all).

        Raises:
            SchemaError: JSON cannot hold a type.
        """
        self._schema = schema
        self._columns = schema.names if columns is None else list(columns)
        self._required = RequiredFields(required)
        self._strict = strict
        self._epoch: frozenset[str] = frozenset()
        self._options = self._parse_options()
        self._record = _record_type("Record", list(schema), top=True, strict=strict)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self._record)
        self._times = [field.name for field in schema if pa.types.is_timestamp(field.type)]

    def decode_block(self, block: bytes) -> pa.RecordBatch | None:
        """Decode a block with pyarrow."""
        rows = self._decode_block(block)
        return None if rows is None or self._required.missing(rows) else rows.select(self._columns)

    def _decode_block(self, block: bytes) -> pa.RecordBatch | None:
        framed = _one_object_a_line(block)
        if framed is None:
            return None
        block, lines = framed
        if lines == 0:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        return self.decode_framed(block, lines)

    def decode_framed(self, block: bytes, lines: int) -> pa.RecordBatch | None:
        """Decode lines of which each begins with ``{`` and ends with ``}``, as `decode_block` does.

        A line may end with a carriage return. Required fields are not looked at, and no column is left out.
        """
        if may_hold_no_number(np.frombuffer(block, np.uint8)):
            return None
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError:
                return None
        rows = self._parse(block, lines)
        if rows is None and self._times and self._learn_times(block):
            rows = self._parse(block, lines)
        return rows

    def decode_each(self, lines: Sequence[bytes]) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
        """Decode line by line with msgspec."""
        records: list[dict[str, Any] | pa.RecordBatch] = []
        places: list[int] = []
        errors: list[tuple[int, str]] = []
        for index, line in enumerate(lines):
            record = self._decode_line(line)
            if isinstance(record, str):
                errors.append((index, record))
            else:
                records.append(record)
                places.append(index)
        rows, unconverted = convert_rows(records, self._to_rows, self._schema)
        errors.extend((places[index], reason) for index, reason in unconverted)
        missing = self._required.missing(rows)
        if missing:
            left = np.delete(np.array(places, np.int64), [index for index, _ in unconverted])
            for row, name in missing.items():
                errors.append((int(left[row]), missing_sentence(name, lines[left[row]])))
            rows = rows.take(pa.array(np.delete(np.arange(rows.num_rows), list(missing))))
        return rows.select(self._columns), sorted(errors)

    def _decode_line(self, line: bytes) -> dict[str, Any] | pa.RecordBatch | str:
        """Return a record, or the reason why the line is none."""
        # pyarrow takes some lines that msgspec does not, and reads a double -0 as it stands: the answer must not
        # depend on the lines around.
        rows = self._decode_block(line) if b"-0" in line else None
        if rows is not None:
            return rows
        try:
            line.decode()
            record: dict[str, Any] = msgspec.to_builtins(self._decoder.decode(line), builtin_types=_KEPT)
            return record
        except RecursionError:
            reason = "JSON is nested too deeply"
        except (ValueError, OverflowError) as error:
            reason = str(error)
        rows = self._decode_block(line)
        return reason if rows is None or rows.num_rows != 1 else rows

    def _to_rows(self, records: Sequence[dict[str, Any] | pa.RecordBatch]) -> pa.RecordBatch:
        if any(isinstance(record, pa.RecordBatch) for record in records):
            return pa.concat_batches([self._one_row(record) for record in records])
        columns = [self._column(records, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _one_row(self, record: dict[str, Any] | pa.RecordBatch) -> pa.RecordBatch:
        return record if isinstance(record, pa.RecordBatch) else self._to_rows([record])

    def _column(self, records: Sequence[Any], field: pa.Field) -> pa.Array:
        values = [record[field.name] for record in records]
        if pa.types.is_timestamp(field.type):
            return to_column(values, field.type)
        return from_wire(pa.array(values, wire_field(field).type), field.type)

    def _parse(self, block: bytes, lines: int) -> pa.RecordBatch | None:
        read = pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            table = pa.json.read_json(pa.BufferReader(block), read_options=read, parse_options=self._options)
            return wire_rows(table, self._schema) if table.num_rows == lines else None
        except pa.ArrowInvalid:
            return None

    def _learn_times(self, block: bytes) -> bool:
        """Look at the first object for times that are numbers; return whether that is news."""
        try:
            # Like pyarrow, and unlike msgspec, this reader takes NaN.
            first = json.loads(block[: block.index(b"\n")])
        except (ValueError, RecursionError):
            return False
        epoch = set(self._epoch)
        for name in self._times:
            if isinstance(first.get(name), int):
                epoch.add(name)
            elif isinstance(first.get(name), str):
                epoch.discard(name)
        if epoch == self._epoch:
            return False
        self._epoch = frozenset(epoch)
        self._options = self._parse_options()
        return True

    def _parse_options(self) -> Any:
        wire = pa.schema([wire_field(field, field.name in self._epoch) for field in self._schema])
        others = "error" if self._strict else "ignore"
        return pa.json.ParseOptions(explicit_schema=wire, unexpected_field_behavior=others)


def _one_object_a_line(block: bytes) -> tuple[bytes, int] | None:
    """Return the block, without blank lines, and its number of lines; None if a line does not look like an object."""
    if not block.endswith(b"\n"):
        block += b"\n"
    lines = _count_objects(block)
    if lines is not None:
        return block, lines
    stripped = [line for line in (line.strip(JsonDecoder.blank) for line in block.split(b"\n")) if line]
    block = b"\n".join(stripped) + b"\n"
    if not stripped:
        return block, 0
    lines = _count_objects(block)
    return None if lines is None else (block, lines)


def _count_objects(block: bytes) -> int | None:
    """Return the number of lines if each begins with ``{`` and ends with ``}``."""
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(text == _LINE_END)
    begins = np.empty_like(ends)
    begins[0] = 0
    begins[1:] = ends[:-1] + 1
    if (text[begins] != _OPEN).any():
        return None
    last = ends - 1
    last -= text[last] == _RETURN
    return int(ends.size) if (text[last] == _CLOSE).all() else None


def _record_type(name: str, fields: Sequence[pa.Field], top: bool, strict: bool) -> Any:
    """Return the msgspec type of an object with these fields, all of them optional."""
    names: Mapping[str, str] = {f"f{index}": field.name for index, field in enumerate(fields)}
    members = [(f"f{index}", _value_type(field.type, strict, top) | None, None) for index, field in enumerate(fields)]
    return msgspec.defstruct(name, members, rename=dict(names), forbid_unknown_fields=strict)


def _value_type(kind: pa.DataType, strict: bool, top: bool = False) -> Any:
    if pa.types.is_struct(kind):
        return _record_type("Struct", list(kind), False, strict)
    if pa.types.is_list(kind):
        return list[_value_type(kind.value_type, strict) | None]  # type: ignore[misc]
    if pa.types.is_timestamp(kind) and top:
        return _INT64 | str
    simple: list[tuple[Callable[[pa.DataType], bool], Any]] = [
        (pa.types.is_boolean, bool),
        (pa.types.is_integer, int if kind == pa.uint64() else _INT64),
        (pa.types.is_duration, _INT64),
        (pa.types.is_floating, float),
        (pa.types.is_decimal, decimal.Decimal),
    ]
    return next((value for test, value in simple if test(kind)), str)
