"""Rows in the types that a format writes, and messages from the bytes it wrote. Called by the encoders."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.errors import BadRecordError

_MOST_BYTES = (1 << 31) - 1


def fitting(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast columns, which are in the order of ``schema``.

    Raises:
        BadRecordError: a value does not fit.
    """
    columns = []
    for item, column in zip(schema, rows.columns, strict=True):
        try:
            columns.append(column if column.type == item.type else column.cast(item.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadRecordError(f"column {item.name!r} cannot be written as {item.type}: {error}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def messages_from(content: bytes, ends: NDArray[np.int64]) -> pa.BinaryArray:
    """Return messages that lie one behind the other; ``ends`` begins with 0.

    Raises:
        BadRecordError: they are more than an array of bytes may hold.
    """
    if len(content) > _MOST_BYTES:
        raise BadRecordError(f"{len(ends) - 1} rows make {len(content):,} bytes of messages at once, which is too much")
    buffers = [None, pa.py_buffer(ends.astype(np.int32).tobytes()), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def with_leaves(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type whose lists, maps and structs are as before, and whose other types are what ``leaf`` makes."""
    if pa.types.is_list(kind):
        return pa.list_(with_leaves(kind.value_type, leaf))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, with_leaves(kind.item_type, leaf))
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([pa.field(item.name, with_leaves(item.type, leaf)) for item in fields])
    return leaf(kind)
