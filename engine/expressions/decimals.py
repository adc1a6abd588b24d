"""Decimals as the nearest floating point numbers; Arrow's own cast may be off in the last bit.

Called by the kernels of casts and by aggregates that compute in doubles.
"""

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.expressions.values import fixed, numbers, valid, validity

_EXACT: dict[pa.DataType, tuple[type[np.floating], int, int]] = {
    pa.float64(): (np.float64, 2**53, 22),
    pa.float32(): (np.float32, 2**24, 10),
}
"""Up to which integer, and which power of ten, numbers of a type have every one: their quotient is rounded once."""


def nearest_floats(value: pa.Array, target: pa.DataType) -> pa.Array:
    """Return decimals as the floating point numbers nearest to them, of two that are as near the even one."""
    if target not in _EXACT:
        return value.cast(target)
    if not pt.is_decimal128(value.type):
        return _from_text(value, target)
    kind, greatest, places = _EXACT[target]
    words, scale = numbers(value), value.type.scale
    low, high = words[:, 0], words[:, 1]
    if 0 <= scale <= places:
        exact = (low >> 63 == high) & (low <= greatest) & (low >= -greatest)
        result = low.astype(kind) / kind(10**scale)
    else:
        exact, result = np.zeros(len(low), np.bool_), np.zeros(len(low), kind)
    far = np.flatnonzero(~exact & valid(value))
    if far.size:
        result[far] = numbers(_from_text(value.take(pa.array(far)), target))
    return fixed(target, result, validity(value))


def _from_text(value: pa.Array, target: pa.DataType) -> pa.Array:
    return value.cast(pa.string()).cast(target)
