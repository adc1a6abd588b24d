"""Estimates, which are doubles, in the types of the results that they stand for."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import build, integers
from penstock.model.errors import NumericOverflowError
from penstock.state.keys.arrays import Ints, Mask

Doubles = NDArray[np.float64]

_LEAST, _GREATEST = -(2.0**63), 2.0**63 - 1024
"""The first and last doubles that fit in 64 bits."""


def typed(values: Doubles, kind: pa.DataType, valid: Mask) -> pa.Array:
    """Return estimates in the type of the result, rounded to it; null where they are not valid.

    Raises:
        NumericOverflowError: one does not fit.
    """
    if pt.is_float64(kind):
        return build(kind, values, valid)
    with np.errstate(invalid="ignore"):
        if pt.is_decimal(kind):
            if np.any(valid & ~(np.abs(values) < _most(kind))):
                raise NumericOverflowError("the sum has more than 38 digits; cast its input to double")
        elif np.any(valid & ~((values >= _LEAST) & (values <= _GREATEST))):
            raise NumericOverflowError("the sum does not fit in 64 bits; cast its input to decimal or double")
    return _rounded(values, kind, valid)


def typed_ends(
    low: Doubles, high: Doubles, kind: pa.DataType, valid: Mask, shown: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """Return the ends of intervals in the type of the result; ends beyond its range are its first or last value.

    Whole numbers are rounded inwards, which loses no whole number, but never beyond the value that is ``shown``.
    """
    if pt.is_float64(kind):
        return build(kind, low, valid), build(kind, high, valid)
    if not pt.is_decimal(kind):
        values = integers(shown)
        lows = np.minimum(_whole(np.clip(np.ceil(low), _LEAST, _GREATEST), valid), values)
        highs = np.maximum(_whole(np.clip(np.floor(high), _LEAST, _GREATEST), valid), values)
        return build(kind, lows, valid), build(kind, highs, valid)
    most = _most(kind)
    lows, highs = (_rounded(np.clip(end, -most, most), kind, valid) for end in (low, high))
    known, nothing = pa.array(valid), pa.scalar(None, kind)
    lows = pc.if_else(pc.greater(lows, shown), shown, lows)
    highs = pc.if_else(pc.less(highs, shown), shown, highs)
    return pc.if_else(known, lows, nothing), pc.if_else(known, highs, nothing)


def _rounded(values: Doubles, kind: pa.DataType, valid: Mask) -> pa.Array:
    if not pt.is_decimal(kind):
        return build(kind, _whole(values, valid), valid)
    with np.errstate(invalid="ignore"):
        numbers = np.where(valid, values, 0.0)
    return pc.if_else(pa.array(valid), pa.array(numbers).cast(kind), pa.scalar(None, kind))


def _whole(values: Doubles, valid: Mask) -> Ints:
    return np.rint(np.where(valid, values, 0.0)).astype(np.int64)


def _most(kind: pa.DataType) -> float:
    """Return a magnitude that every double up to it fits in a decimal of this type."""
    return float(10.0 ** (kind.precision - kind.scale) * (1 - 1e-15))
