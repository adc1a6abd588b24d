"""Rows in the types that a format writes, and messages from the bytes it wrote. Called by the encoders."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.errors import BadRecordError, SchemaError

_MOST_BYTES = (1 << 31) - 1


class RecordFields:
    """Columns as the fields of records that a library writes one by one."""

    def __init__(
        self, columns: pa.Schema, fields: pa.Schema, what: str, raw_type: Callable[[pa.DataType], pa.DataType]
    ) -> None:
        """``fields`` are those of ``what``; ``raw_type`` returns the type in which the library takes a simple type.

        Raises:
            SchemaError: a column is no field.
        """
        for name in columns.names:
            if name not in fields.names:
                raise SchemaError(f"column {name!r} is no field of {what}: there are {', '.join(fields.names)}")
        self._fields = [fields.field(name) for name in columns.names]
        self._raw_types = [_with_leaves(item.type, raw_type) for item in self._fields]

    def records(self, rows: pa.RecordBatch) -> list[dict[str, Any]]:
        """Return the rows as the library takes them; their columns are in the order that was given.

        Raises:
            BadRecordError: a value does not fit its field.
        """
        columns = []
        for item, raw_type, column in zip(self._fields, self._raw_types, rows.columns, strict=True):
            try:
                fitted = column if column.type == item.type else column.cast(item.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise BadRecordError(f"column {item.name!r} cannot be written as {item.type}: {error}") from None
            columns.append(fitted.cast(raw_type))
        records: list[dict[str, Any]] = pa.RecordBatch.from_arrays(columns, rows.schema.names).to_pylist()
        return records


def messages_from(content: bytes, ends: NDArray[np.int64]) -> pa.BinaryArray:
    """Return messages that lie one behind the other; ``ends`` begins with 0.

    Raises:
        BadRecordError: they are more than an array of bytes may hold.
    """
    if len(content) > _MOST_BYTES:
        raise BadRecordError(f"{len(ends) - 1} rows make {len(content):,} bytes of messages at once, which is too much")
    buffers = [None, pa.py_buffer(ends.astype(np.int32).tobytes()), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def _with_leaves(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type whose lists, maps and structs are as before, and whose other types are what ``leaf`` makes."""
    if pa.types.is_list(kind):
        return pa.list_(_with_leaves(kind.value_type, leaf))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _with_leaves(kind.item_type, leaf))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(item.name, _with_leaves(item.type, leaf)) for item in kind])
    return leaf(kind)
