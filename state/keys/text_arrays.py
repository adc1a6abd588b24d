"""Conversion of strings and binaries between Arrow arrays of any layout and plain arrays of bytes and offsets."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.model.errors import NumericOverflowError
from penstock.state.keys.arrays import NO_BYTES


def read_text(column: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return (data, offsets) of a string or binary column without nulls, in Arrow's own memory where possible."""
    large = pt.is_large_string(column.type) or pt.is_large_binary(column.type)
    width: np.dtype[Any] = np.dtype(np.int64 if large else np.int32)
    buffers = column.buffers()
    if len(column) == 0:
        return NO_BYTES, np.zeros(1, np.int64)
    offsets = np.frombuffer(buffers[1], width, count=len(column) + 1, offset=column.offset * width.itemsize)
    data = NO_BYTES if buffers[2] is None else np.frombuffer(buffers[2], np.uint8)
    return data, offsets.astype(np.int64, copy=False)


def write_text(
    type_: pa.DataType, data: NDArray[np.uint8], offsets: NDArray[np.int64], validity: pa.Buffer | None
) -> pa.Array:
    """Build an array of a string or binary type, of any layout, over data and offsets (the first is 0).

    Raises:
        NumericOverflowError: more than 2 GiB for a type that counts in 32 bits.
    """
    length = len(offsets) - 1
    if pt.is_large_string(type_) or pt.is_large_binary(type_):
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(type_, length, buffers)
    if offsets[-1] > np.iinfo(np.int32).max:
        raise NumericOverflowError(f"{offsets[-1]} bytes do not fit into one {type_} array: read fewer rows at once.")
    plain = pa.string() if is_text(type_) else pa.binary()
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    array = pa.Array.from_buffers(plain, length, buffers)
    return array if type_ == plain else array.cast(type_)


def is_text(type_: pa.DataType) -> bool:
    """Whether this is a string type, of whatever layout."""
    return bool(pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_))
