"""Columns of any ordered type as keys that kernels compare: 64-bit words, or bytes for text.

The order is SQL's: NaN equals itself and is greatest, both zeros are one, text goes by code point.
Called by ``extremes.py`` and by whatever needs one canonical form of a value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.engine.accumulators.arrays import (
    Words,
    bitmap,
    build,
    doubles,
    fixed,
    integers,
    valid_mask,
)
from penstock.engine.kernels.accumulate_best import double_keys
from penstock.state.keys.arrays import Mask, read_only

Keys = list[Words | pa.Array]
"""One sort key a level: int64 words (ascending), or a string or binary array in the order of its
`SortColumn`.
"""

_PAIR = np.dtype([("low", np.int64), ("high", np.int64)])
_SIGN = np.int64(-(2**63))
_NOT_SIGN = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True)
class SortColumn:
    """One column of a comparison: its type and direction."""

    type: pa.DataType
    descending: bool = False

    @property
    def text(self) -> bool:
        """True if the key is a string or binary rather than words."""
        return is_text(self.type)

    @property
    def width(self) -> int:
        """The number of keys that the column becomes."""
        return 2 if pt.is_decimal(self.type) and self.type.precision > 18 else 1

    def keys(self, array: pa.Array) -> Keys:
        """Return the column's keys; anything where the value is null."""
        if self.text:
            return [array.cast(pa.binary()) if pt.is_fixed_size_binary(self.type) else array]
        words = _words(array)
        return [read_only(~word) for word in words] if self.descending else [read_only(word) for word in words]

    def values(self, keys: Sequence[Words | pa.Array], valid: Mask | None = None) -> pa.Array:
        """Undo `keys`; null where ``valid`` is False."""
        if self.text:
            text: Any = keys[0]
            if valid is not None and not valid.all():
                text = pc.if_else(pa.array(valid), text, pa.scalar(None, text.type))
            return text.cast(self.type) if pt.is_fixed_size_binary(self.type) else text
        return _array(self.type, [~word for word in keys] if self.descending else list(keys), valid)


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are compared as bytes."""
    return bool(pt.is_string(kind) or pt.is_binary(kind) or pt.is_fixed_size_binary(kind))


def is_ordered(kind: pa.DataType) -> bool:
    """Return whether this type can be a `SortColumn`."""
    if pt.is_interval(kind):
        return False
    plain = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind) or pt.is_decimal128(kind)
    return bool(plain or pt.is_temporal(kind) or is_text(kind))


def canonical(array: pa.Array) -> pa.Array:
    """Return the values with one zero and one NaN, so that equal values are equal bits."""
    if not pt.is_floating(array.type):
        return array
    column = SortColumn(array.type)
    return column.values(column.keys(array), valid_mask(array) if array.null_count else None)


def _words(array: pa.Array) -> list[Words]:
    kind = array.type
    if pt.is_floating(kind):
        bits = doubles(array).view(np.int64)
        keys = np.empty(len(bits), np.int64)
        double_keys(bits, keys)
        return [keys]
    if pt.is_decimal(kind):
        pairs = fixed(array, _PAIR)
        low = np.ascontiguousarray(pairs["low"])
        return [np.ascontiguousarray(pairs["high"]), low ^ _SIGN] if kind.precision > 18 else [low]
    if pt.is_uint64(kind):
        return [integers(array) ^ _SIGN]
    return [integers(array)]


def _array(kind: pa.DataType, words: list[Any], valid: Mask | None) -> pa.Array:
    first = words[0]
    if pt.is_floating(kind):
        bits = first ^ ((first >> 63) & _NOT_SIGN)
        return build(kind, bits.view(np.float64).astype(kind.to_pandas_dtype(), copy=False), valid)
    if pt.is_decimal(kind):
        pairs = np.empty((len(first), 2), np.int64)
        wide = kind.precision > 18
        pairs[:, 0] = words[1] ^ _SIGN if wide else first
        pairs[:, 1] = first if wide else first >> 63
        return build(kind, pairs, valid)
    if pt.is_boolean(kind):
        bits_buffer = pa.py_buffer(np.packbits(first != 0, bitorder="little"))
        return pa.Array.from_buffers(kind, len(first), [bitmap(valid), bits_buffer])
    if pt.is_uint64(kind):
        first = first ^ _SIGN
    return build(kind, np.ascontiguousarray(first.astype(f"i{kind.bit_width // 8}", copy=False)), valid)
