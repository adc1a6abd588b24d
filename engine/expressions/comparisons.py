"""Kernels of comparison and membership: a NaN equals itself and is greater than anything else.

`expressions.kernels` looks them up by operation; numbers are compared by numpy, several times faster than by Arrow.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.engine.expressions.values import (
    Kernel,
    arrow,
    booleans,
    constant,
    dtype_of,
    fixed,
    numbers,
    reader,
    validity,
)
from penstock.model.typed_expressions import TypedExpression

_INT64 = np.iinfo(np.int64)


def comparison(typed: TypedExpression) -> Kernel:
    """The six comparisons of everything but text against a constant."""
    kind = typed.args[0].type
    if pt.is_floating(kind):
        return _float_comparison(typed)
    if pt.is_decimal(kind):
        return _decimal_comparison(typed)
    if pt.is_boolean(kind) or pt.is_string(kind) or pt.is_binary(kind):
        return arrow(_COMPARE[typed.op].__name__)
    compare = _COMPARE[typed.op]
    left, right = (reader(argument) for argument in typed.args)
    return lambda one, other: booleans(compare(left(one), right(other)), validity(one, other))


def membership(typed: TypedExpression) -> Kernel:
    """``value in (constants)``; unknown instead of false if one of the constants is null."""
    options = [scalar for scalar in typed.value if scalar.is_valid]
    with_null = len(options) < len(typed.value)
    kind = typed.args[0].type
    member = _membership_kernel(kind, options)

    def kernel(value: pa.Array) -> pa.Array:
        result = member(value)
        if value.null_count:
            result = pc.if_else(pc.is_valid(value), result, pa.scalar(None, pa.bool_()))
        return pc.if_else(result, result, pa.scalar(None, pa.bool_())) if with_null else result

    return kernel


_COMPARE: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""NumPy's functions, which have the names of Arrow's."""


def _membership_kernel(kind: pa.DataType, options: list[pa.Scalar]) -> Kernel:
    """Return the kernel of ``value in (known constants)`` for rows that are not null."""
    if pt.is_integer(kind):
        limits = np.iinfo(dtype_of(kind))
        numbers_ = [scalar.as_py() for scalar in options if limits.min <= scalar.as_py() <= limits.max]
        if 0 < len(numbers_) <= 8:
            return lambda value: _among(value, numbers_)
        values = pa.array(numbers_, kind)
    elif pt.is_temporal(kind):
        values = fixed(kind, np.array([constant(scalar) for scalar in options], dtype_of(kind)), None)
    else:
        values = pa.array([scalar.as_py() for scalar in options], kind)
    return arrow("is_in", pc.SetLookupOptions(values))


def _among(value: pa.Array, options: list[int]) -> pa.Array:
    data = numbers(value)
    mask = data == options[0]
    for option in options[1:]:
        mask |= data == option
    return booleans(mask, None)


def _float_comparison(typed: TypedExpression) -> Kernel:
    """IEEE comparison, corrected where a NaN takes part: it equals itself and is greater than everything else."""
    compare = _COMPARE[typed.op]
    left, right = (reader(argument) for argument in typed.args)
    with_equal = typed.op in ("eq", "le", "ge")

    def kernel(one: Any, other: Any) -> pa.Array:
        first, second = left(one), right(other)
        mask = compare(first, second)
        nan, other_nan = np.isnan(first), np.isnan(second)
        if np.any(nan) or np.any(other_nan):
            if typed.op == "ne":
                corrected = nan != other_nan
            elif typed.op in ("lt", "le"):
                corrected = ~nan & other_nan
            elif typed.op in ("gt", "ge"):
                corrected = nan & ~other_nan
            else:
                corrected = np.zeros_like(mask)
            corrected = corrected | (nan & other_nan) if with_equal else corrected
            mask = np.where(nan | other_nan, corrected, mask)
        return booleans(mask, validity(one, other))

    return kernel


def _decimal_comparison(typed: TypedExpression) -> Kernel:
    """Compare the low 64 bits where all values fit in them, which is nearly always."""
    general = arrow(_COMPARE[typed.op].__name__)
    compare = _COMPARE[typed.op]
    readers = [_low_words(argument) for argument in typed.args]

    def kernel(one: Any, other: Any) -> pa.Array:
        first, second = readers[0](one), readers[1](other)
        if first is None or second is None:
            return general(one, other)
        return booleans(compare(first, second), validity(one, other))

    return kernel


def _low_words(argument: TypedExpression) -> Kernel:
    if argument.op == "literal":
        value = reader(argument)(None)
        fitting = value if _INT64.min <= value <= _INT64.max else None
        return lambda _: fitting

    def read(value: pa.Array) -> Any:
        pairs = numbers(value)
        low = pairs[:, 0]
        return low if np.array_equal(low >> 63, pairs[:, 1]) else None

    return read
