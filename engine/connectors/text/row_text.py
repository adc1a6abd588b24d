"""Rows as text, computed column by column: JSON for files and dead letters, plainer text for people.

Called by the JSON lines, CSV and print sinks and wherever a row is quoted in a message.
"""

import base64
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.text.layouts import entry_lists, plain_layout
from penstock.engine.connectors.time_range import time_limits, unusable_times

_ESCAPES = {0x5C: "\\\\", 0x22: '\\"', 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
"""Backslash comes first: the other escapes contain one."""


def encode_lines(rows: pa.RecordBatch) -> pa.Buffer:
    """Return the rows as JSON objects, one a line, the last line ended too.

    Missing values are ``null``, so are NaN and infinities. Times are ISO 8601, in UTC with a ``Z`` if the column has a
    zone (plain numbers before the year 1 and after 32767); durations are counts of their unit. Bytes are
    base64, maps are lists of key and value.
    """
    lines = _objects(rows.schema.names, rows.columns, len(rows), "\n")
    if len(rows) == 0:
        return pa.py_buffer(b"")
    return lines.buffers()[2]


def encode_rows(rows: pa.RecordBatch) -> list[bytes]:
    """Return each row as a JSON object, as in `encode_lines`."""
    encoded: list[bytes] = _objects(rows.schema.names, rows.columns, len(rows), "").cast(pa.binary()).to_pylist()
    return encoded


def json_texts(column: pa.Array) -> pa.Array:
    """Return the JSON text of every value; no nulls."""
    return _text(plain_layout(column)).fill_null("null")


def plain_texts(column: pa.Array) -> pa.Array:
    """Return every value as people read it: like JSON, but text as it is, on one line; missing values are ``null``."""
    column = plain_layout(column)
    texts = _escaped(column, keep=(0x22, 0x5C)) if pa.types.is_string(column.type) else _text(column)
    return texts.fill_null("null")


def base64_texts(column: pa.Array) -> pa.Array:
    """Return bytes as base64; null stays null."""
    encoded = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
    return pa.array(encoded, pa.string())


def join_texts(*pieces: pa.Array | str) -> pa.Array:
    """Concatenate texts row by row; strings stand for every row."""
    return pc.binary_join_element_wise(*[pa.scalar(p) if isinstance(p, str) else p for p in pieces], "")


def _objects(names: list[str], columns: list[pa.Array], rows: int, end: str) -> pa.Array:
    if not columns:
        return pa.array(["{}" + end] * rows)
    pieces: list[pa.Array | str] = []
    for name, column in zip(names, columns, strict=True):
        pieces.append(("," if pieces else "{") + _quoted(pa.array([name]))[0].as_py() + ":")
        pieces.append(json_texts(column))
    return join_texts(*pieces, "}" + end)


def _text(column: pa.Array) -> pa.Array:
    """Return JSON text, null where the value is null or has no JSON counterpart."""
    kind = column.type
    if pa.types.is_string(kind):
        return _quoted(column)
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), column, None).cast(pa.string())
    if pa.types.is_timestamp(kind):
        return _iso_times(column)
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return join_texts('"', column.cast(pa.string()), '"')
    if pa.types.is_duration(kind):
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return join_texts('"', base64_texts(column), '"')
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return pc.if_else(column.is_valid(), _objects(names, column.flatten(), len(column), ""), None)
    if pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(column)
    return column.cast(pa.string())


def _iso_times(column: pa.Array) -> pa.Array:
    kind = column.type
    utc = column if kind.tz is None else column.cast(pa.timestamp(kind.unit, "UTC"))
    iso = pc.replace_substring(utc.cast(pa.string()), " ", "T", max_replacements=1)
    texts = join_texts('"', iso, '"')
    if unusable_times(column) is None:
        return texts
    # Beyond a year that is far away Arrow says in words that it cannot write one; before the year 1 nobody reads them.
    raw = column.cast(pa.int64())
    least, _ = time_limits(kind.unit)
    unwritten = pc.or_(pc.starts_with(iso, "<"), pc.less(raw, least))
    return pc.if_else(unwritten, raw.cast(pa.string()), texts)


def _lists(column: pa.Array) -> pa.Array:
    column = entry_lists(column)
    values = column.flatten()
    lengths = pc.list_value_length(column).fill_null(0)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths))]).astype(np.int32)
    texts = pa.ListArray.from_arrays(pa.array(offsets), json_texts(values))
    return pc.if_else(column.is_valid(), join_texts("[", pc.binary_join(texts, ","), "]"), None)


def _quoted(column: pa.Array) -> pa.Array:
    return join_texts('"', _escaped(column), '"')


def _escaped(column: pa.Array, keep: Sequence[int] = ()) -> pa.Array:
    """Escape what JSON strings may not hold; looks at the bytes first, because most text needs nothing."""
    present = [sign for sign in _special_bytes(column) if sign not in keep]
    for sign in sorted(present, key=lambda byte: byte != 0x5C):
        column = pc.replace_substring(column, chr(sign), _ESCAPES.get(sign, f"\\u{sign:04x}"))
    return column


def _special_bytes(column: pa.Array) -> list[int]:
    data = column.buffers()[2]
    if data is None or len(column) == 0:
        return []
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    first, last = offsets[column.offset], offsets[column.offset + len(column)]
    text = np.frombuffer(data, np.uint8)[first:last]
    special = text[(text < 0x20) | (text == 0x22) | (text == 0x5C)]
    return [int(byte) for byte in np.unique(special)]
