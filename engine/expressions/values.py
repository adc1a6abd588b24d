"""Values between the steps of a compiled expression: Arrow arrays, constants, and text held by reference.

Helpers here give kernels the memory of an array as numpy and wrap numpy results as arrays, validity included.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.model.schema import normal_type
from penstock.model.typed_expressions import TypedExpression
from penstock.state.keys.arrays import Bytes, Mask

Kernel = Callable[..., Any]
"""Takes the values of a step's arguments (arrays, or scalars for constants) and returns an array."""


_MEMORY: dict[int, tuple[np.dtype[Any], int]] = {
    kind.id: (np.dtype(dtype), width)
    for dtype, width, kinds in (
        ("i1", 1, [pa.int8()]),
        ("i2", 1, [pa.int16()]),
        ("i4", 1, [pa.int32(), pa.date32(), pa.time32("s")]),
        ("i8", 1, [pa.int64(), pa.timestamp("us"), pa.duration("us"), pa.date64(), pa.time64("us")]),
        ("u1", 1, [pa.uint8()]),
        ("u2", 1, [pa.uint16()]),
        ("u4", 1, [pa.uint32()]),
        ("u8", 1, [pa.uint64()]),
        ("f2", 1, [pa.float16()]),
        ("f4", 1, [pa.float32()]),
        ("f8", 1, [pa.float64()]),
        ("i8", 2, [pa.decimal128(1, 0)]),
    )
    for kind in kinds
}
"""How fixed-width types lie in memory, by their id: the numpy type and how many of it make one value."""


class RowError(Exception):
    """Some row of the batch has no result; the text is the reason."""


class Dictionary:
    """Distinct values that rows refer to by index; it only grows at its end. Keeps the results of kernels over it."""

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        self._derived: dict[Kernel, Dictionary] = {}

    def map(self, kernel: Kernel) -> "Dictionary":
        """Apply a kernel of one argument to the values, or only to those that are new since the last time."""
        derived = self._derived.get(kernel)
        if derived is None:
            derived = self._derived[kernel] = Dictionary(kernel(self.values))
        elif len(derived.values) < len(self.values):
            new = kernel(self.values.slice(len(derived.values)))
            derived.values = pa.concat_arrays([derived.values, new])
        return derived


class Encoded:
    """A column as int32 indices (null for a null row) into a `Dictionary`."""

    __slots__ = ("_plain", "dictionary", "indices")

    def __init__(self, indices: pa.Array, dictionary: Dictionary, plain_form: pa.Array | None = None) -> None:
        self.indices = indices
        self.dictionary = dictionary
        self._plain = plain_form

    def __len__(self) -> int:
        return len(self.indices)

    def plain(self) -> pa.Array:
        """Return the column itself."""
        if self._plain is None:
            self._plain = self.dictionary.values.take(self.indices)
        return self._plain

    def map(self, kernel: Kernel) -> "Encoded":
        """Apply a kernel of one argument that gives null for null."""
        return Encoded(self.indices, self.dictionary.map(kernel))

    def filter(self, mask: pa.Array) -> "Encoded":
        """Keep the rows for which the mask is true."""
        kept = None if self._plain is None else self._plain.filter(mask)
        return Encoded(self.indices.filter(mask), self.dictionary, kept)

    def take(self, rows: pa.Array) -> "Encoded":
        """Keep these rows."""
        kept = None if self._plain is None else self._plain.take(rows)
        return Encoded(self.indices.take(rows), self.dictionary, kept)


def plain(value: Any) -> Any:
    """Return a value as kernels know it: an array or a scalar."""
    return value.plain() if type(value) is Encoded else value


def load(array: pa.Array) -> pa.Array:
    """Return a column in the one layout of its logical type."""
    if array.type.id in _MEMORY:
        return array
    kind = normal_type(array.type)
    return array if array.type == kind else array.cast(kind)


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return the memory of a fixed-width array: one number per row, decimals as int64 pairs (low, high)."""
    dtype, width = _MEMORY[array.type.id]
    rows = len(array)
    buffer = array.buffers()[1]
    if buffer is None or not rows:
        data = np.zeros(rows * width, dtype)
    else:
        start = array.offset * width * dtype.itemsize
        data = np.frombuffer(buffer, dtype, count=rows * width, offset=start)
    return data if width == 1 else data.reshape(-1, width)


def dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    """Return the numpy type of a fixed-width type's memory; times are integers."""
    return _MEMORY[kind.id][0]


def constant(scalar: pa.Scalar) -> Any:
    """Return the number of a constant: times as integers, decimals unscaled."""
    kind = scalar.type
    if pt.is_decimal(kind):
        return int(scalar.as_py().scaleb(kind.scale))
    if pt.is_temporal(kind):
        return scalar.value
    return scalar.as_py()


def reader(argument: TypedExpression) -> Callable[[Any], Any]:
    """Return how a numpy kernel reads this argument: the memory of an array, or the number of a constant."""
    if argument.op == "literal":
        value = constant(argument.value)
        return lambda _: value
    return numbers


def text_parts(array: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return the offsets (one more than rows) and the bytes of a string array."""
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    first = array.offset * 4
    starts = np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=first)
    return starts, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def bits(value: Any, rows: int | None = None) -> Mask:
    """Return a condition as one bool per row, null being false; ``rows`` is needed for constants."""
    if isinstance(value, pa.Scalar):
        return np.full(rows or 0, bool(value.as_py()))
    if value.null_count:
        value = pc.fill_null(value, False)
    return unpacked(value.buffers()[1], value.offset, len(value))


def unpacked(buffer: pa.Buffer | None, offset: int, rows: int) -> Mask:
    """Return ``rows`` bits of a bitmap from bit ``offset`` on; all true without a bitmap."""
    if buffer is None:
        return np.ones(rows, np.bool_)
    first = offset // 8
    used = np.frombuffer(buffer, np.uint8, count=(offset + rows + 7) // 8 - first, offset=first)
    mask = np.unpackbits(used, bitorder="little", count=offset - 8 * first + rows)
    return mask[offset - 8 * first :].view(np.bool_)


def bitmap(mask: Mask) -> pa.Buffer:
    """Return bools as an Arrow bitmap."""
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def valid(array: pa.Array) -> Mask:
    """Return where an array is not null."""
    return unpacked(array.buffers()[0] if array.null_count else None, array.offset, len(array))


def validity(*values: Any) -> pa.Buffer | None:
    """Return the bitmap of the rows where all arrays are valid; None when that is everywhere. Skips constants."""
    arrays = [value for value in values if not isinstance(value, pa.Scalar) and value.null_count]
    if not arrays:
        return None
    if len(arrays) == 1 and not arrays[0].offset:
        return arrays[0].buffers()[0]
    mask = valid(arrays[0])
    for array in arrays[1:]:
        mask = mask & valid(array)
    return bitmap(mask)


def fixed(kind: pa.DataType, data: npt.NDArray[Any], nulls: pa.Buffer | None) -> pa.Array:
    """Wrap numbers (pairs for decimals) as an array of a fixed-width type."""
    return pa.Array.from_buffers(kind, len(data), [nulls, pa.py_buffer(np.ascontiguousarray(data))])


def booleans(mask: Mask, nulls: pa.Buffer | None) -> pa.Array:
    """Wrap bools as an array."""
    return pa.Array.from_buffers(pa.bool_(), len(mask), [nulls, bitmap(mask)])


def arrow(name: str, options: Any = None) -> Kernel:
    """Return a kernel that is a function of `pyarrow.compute`, looked up once."""
    function = pc.get_function(name)
    return lambda *arguments: function.call(list(arguments), options)
