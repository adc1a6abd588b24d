"""Between Arrow arrays and the arrays of kernels: values, signs of rows, and results with their
nulls.

Called by every accumulator; nothing here copies unless a type has to widen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.engine.expressions.decimals import nearest_floats
from penstock.engine.expressions.values import unpacked
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import Slots

Signs = NDArray[np.int8]
Words = Ints


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one batch as accumulators see them, one entry per row in every array.

    ``slots``: the group of each row; -1 leaves the row out. ``weights``: +1 or -1 of a changelog (None: all +1).
    ``times_us``: event times (None: unknown). ``keep``: the rate at which all of them were kept, see `Batch.keep`.
    ``quality``: of rows that are results themselves and not all exact (None: they are). ``buckets``: of the keys by
    which rows were kept (None: each by itself).
    """

    slots: Slots
    weights: Signs | None = None
    times_us: Ints | None = None
    keep: float = 1.0
    quality: "RowQuality | None" = None
    buckets: NDArray[np.uint8] | None = None

    @property
    def are_exact(self) -> bool:
        """Whether nothing was shed, neither of these rows nor of what they are results of."""
        return self.keep == 1.0 and self.quality is None


@dataclass(frozen=True, slots=True)
class RowQuality:
    """How good rows are that are results themselves: 1 - accuracy, and 1 where it is above 0 or the row is biased."""

    missing: NDArray[np.float64]
    flaws: NDArray[np.float64]

    def take(self, rows: Ints) -> "RowQuality":
        """Return these rows; they may repeat."""
        return RowQuality(self.missing[rows], self.flaws[rows])


NO_SIGNS: Signs = read_only(np.zeros(0, np.int8))
"""Every row counts once."""

NO_WORDS: Words = np.zeros(0, np.int64)
"""A state column that this variant does not have."""


def signs_of(rows: Rows, where: Mask | None, values: Sequence[pa.Array]) -> Signs:
    """Return how often each row counts (its weight; 0 where filtered or null), or `NO_SIGNS` for
    once each.
    """
    mask = where
    for array in values:
        if array.null_count:
            valid = valid_mask(array)
            mask = valid if mask is None else mask & valid
    if mask is None:
        return NO_SIGNS if rows.weights is None else read_only(rows.weights)
    if rows.weights is None:
        return read_only(np.ascontiguousarray(mask).view(np.int8))
    return read_only(mask * rows.weights)


def kept_rows(slots: Slots, signs: Signs) -> Ints | None:
    """Return the positions of the rows that count at all; None means all of them."""
    kept = slots >= 0
    if signs.shape[0]:
        kept &= signs != 0
    return None if kept.all() else np.flatnonzero(kept)


def taken(array: Any, positions: Ints | None) -> Any:
    """Return the entries of a numpy or Arrow array at these positions (None: all)."""
    if positions is None:
        return array
    return array[positions] if isinstance(array, np.ndarray) else array.take(pa.array(positions))


def numbered(slots: Slots) -> tuple[Words, Slots]:
    """Return (group of each row, slot of each group), groups numbered from 0 in order of
    appearance.
    """
    encoded = pa.array(slots).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()


def valid_mask(array: pa.Array) -> Mask:
    """Return True where the array has a value."""
    buffer = array.buffers()[0]
    if buffer is None:
        return np.full(len(array), array.null_count == 0)
    return unpacked(buffer, array.offset, len(array))


def fixed(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """Return the values buffer of a fixed-width array as ``dtype``, without copying; any value
    where null.
    """
    kind = np.dtype(dtype)
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), kind)
    values = np.frombuffer(buffer, kind, count=len(array), offset=array.offset * kind.itemsize)
    return values if values.flags.aligned else values.copy()


def integers(array: pa.Array) -> Words:
    """Return integers (uint64 by its bits), booleans, dates, times and durations as read-only
    int64.
    """
    kind = array.type
    if pt.is_boolean(kind):
        buffer = array.buffers()[1]
        bits = np.zeros(len(array), np.bool_) if buffer is None else unpacked(buffer, array.offset, len(array))
        return read_only(bits.astype(np.int64))
    if pt.is_uint64(kind):
        return read_only(fixed(array, np.int64))
    dtype: Any = np.dtype(kind.to_pandas_dtype()) if pt.is_integer(kind) else np.dtype(f"i{kind.bit_width // 8}")
    return read_only(fixed(array, dtype).astype(np.int64, copy=False))


def doubles(array: pa.Array) -> NDArray[np.float64]:
    """Return numbers as read-only float64; integers and decimals are rounded to it."""
    kind = array.type
    if pt.is_float64(kind):
        return read_only(fixed(array, np.float64))
    if pt.is_integer(kind):
        return read_only(fixed(array, kind.to_pandas_dtype()).astype(np.float64))
    if pt.is_decimal(kind):
        return read_only(fixed(nearest_floats(array, pa.float64()), np.float64))
    return read_only(fixed(array.cast(pa.float64()), np.float64))


def build(kind: pa.DataType, values: NDArray[Any], valid: Mask | None = None) -> pa.Array:
    """Build a fixed-width array over contiguous values; null where ``valid`` is False."""
    length = values.nbytes * 8 // kind.bit_width
    return pa.Array.from_buffers(kind, length, [bitmap(valid), pa.py_buffer(values)])


def bitmap(valid: Mask | None) -> pa.Buffer | None:
    """Return the validity buffer of a mask; None if everything is valid."""
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
