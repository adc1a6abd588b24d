"""Gathering of columns from rows in many record batches, in any order, for `row_log`."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.state.kernels import rows as kernels
from penstock.state.kernels.rows import COLUMN_FIELDS, COLUMNS, OFFSET, VALIDITY, VALUES
from penstock.state.keys.arrays import read_only
from penstock.state.keys.text_arrays import write_text

Ints = NDArray[np.int64]


def column_addresses(rows: pa.RecordBatch) -> list[int]:
    """Return the column part of a chunk's entry; good while the batch lives."""
    fields: list[int] = []
    for column in rows.columns:
        buffers = [*column.buffers(), None, None][:3] if _is_flat(column.type) else [None] * 3
        if not column.null_count:
            # Many readers bring a bitmap that says nothing.
            buffers[0] = None
        fields.extend(0 if buffer is None else buffer.address for buffer in buffers)
        fields.append(column.offset)
    return fields


def gather(
    batches: Sequence[pa.RecordBatch], entries: Ints, chunks: Ints, rows: Ints, columns: list[int]
) -> list[pa.Array]:
    """Return these columns of the rows, row i being number rows[i] of batches[chunks[i]]."""
    entries, chunks, rows = read_only(entries), read_only(chunks), read_only(rows)
    return [_gather(batches, entries, chunks, rows, column) for column in columns]


def _gather(batches: Sequence[pa.RecordBatch], entries: Ints, chunks: Ints, rows: Ints, column: int) -> pa.Array:
    type_ = batches[0].schema.field(column).type
    count = len(rows)
    if not _is_flat(type_):
        starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
        parts = pa.chunked_array([batch.column(column) for batch in batches])
        return parts.take(pa.array(starts[chunks] + rows)).combine_chunks()
    field = COLUMNS + column * COLUMN_FIELDS
    validity = None
    if entries[:, field + VALIDITY].any():
        bitmap = np.zeros((count + 7) // 8, np.uint8)
        if kernels.gather_bits(entries, field + VALIDITY, field + OFFSET, chunks, rows, bitmap):
            validity = pa.py_buffer(bitmap)
    if pt.is_boolean(type_):
        bits = np.zeros((count + 7) // 8, np.uint8)
        kernels.gather_bits(entries, field + VALUES, field + OFFSET, chunks, rows, bits)
        return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(bits)])
    if pt.is_string(type_) or pt.is_binary(type_):
        starts = np.empty(count, np.int64)
        offsets = np.empty(count + 1, np.int64)
        kernels.gather_spans(entries, field, chunks, rows, starts, offsets)
        data = np.empty(offsets[-1], np.uint8)
        kernels.copy_spans(starts, offsets, data)
        return write_text(type_, data, offsets, validity)
    width = type_.bit_width // 8
    values = np.empty(count * width, np.uint8)
    kernels.gather_values(entries, field, width, chunks, rows, values)
    return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(values)])


def _is_flat(type_: pa.DataType) -> bool:
    """Whether a column of this type is nothing but validity, values or 32-bit offsets, and data."""
    return bool(
        pt.is_string(type_)
        or pt.is_binary(type_)
        or pt.is_primitive(type_)
        or pt.is_decimal(type_)
        or pt.is_fixed_size_binary(type_)
    )
