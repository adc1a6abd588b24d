"""Kernels of arithmetic: overflow is an error, division by zero is null, `//` and `%` truncate.

`expressions.kernels` looks them up by operation; numpy serves where Arrow has no kernel or a slow one.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.engine.expressions.values import (
    Kernel,
    RowError,
    arrow,
    bitmap,
    fixed,
    numbers,
    reader,
    valid,
    validity,
)
from penstock.model.coercion import MAX_PRECISION, digits_of
from penstock.model.typed_expressions import TypedExpression
from penstock.state.keys.arrays import Ints, Mask

_INT64 = np.iinfo(np.int64)
_ARROW = {"add": "add", "sub": "subtract", "mul": "multiply", "neg": "negate", "abs": "abs"}


def arithmetic(typed: TypedExpression) -> Kernel:
    """Addition, subtraction, multiplication, unary minus and the absolute value."""
    if typed.op == "mul" and pt.is_decimal(typed.type):
        return _scaled_product(typed)
    if len(typed.args) == 2 and pt.is_decimal(typed.type):
        return _decimal(typed, _ARROW[typed.op])
    return arrow(_ARROW[typed.op] + ("_checked" if pt.is_integer(typed.type) else ""))


def division(typed: TypedExpression) -> Kernel:
    """Floating point division."""
    divide = arrow("divide")
    divisor = typed.args[1]
    if divisor.op == "literal":
        return _all_null(typed) if divisor.value.as_py() == 0 else divide
    return lambda left, right: divide(left, _zero_as_null(right))


def quotient(typed: TypedExpression) -> Kernel:
    """Division that truncates toward zero."""
    if pt.is_floating(typed.args[0].type):
        divide = division(typed)
        return lambda left, right: pc.trunc(divide(left, right))
    return _integer_division(typed, _truncated)


def remainder(typed: TypedExpression) -> Kernel:
    """The remainder of a division that truncates; it has the sign of the dividend."""
    if pt.is_floating(typed.type):
        return _float_remainder(typed)
    return _integer_division(typed, _left_over)


def sign(typed: TypedExpression) -> Kernel:
    """-1, 0 or 1; 0 for NaN."""
    del typed

    def kernel(value: pa.Array) -> pa.Array:
        if pt.is_decimal(value.type):
            value = pc.cast(pc.sign(value), pa.int64())
        signs = np.nan_to_num(np.sign(numbers(value))).astype(np.int64)
        return fixed(pa.int64(), signs, validity(value))

    return kernel


def rounding(typed: TypedExpression) -> Kernel:
    """Round (half away from zero), floor and ceil."""
    kind = typed.args[0].type
    digits = typed.value[0] if typed.op == "round" else 0
    if pt.is_integer(kind):
        if digits >= 0:
            return lambda value: value
        return lambda value: _rounded_integers(value, 10**-digits)
    if typed.op == "round":
        options = pc.RoundOptions(ndigits=digits, round_mode="half_towards_infinity")
        kernel = arrow("round", options)
    else:
        kernel = arrow(typed.op)
    if not pt.is_decimal(kind):
        return lambda value: _rounded_floats(kernel, value, 10.0**digits)
    precision = kind.precision + 1
    if typed.op == "round" and kind.scale - digits >= precision:
        # Every value is less than half of what is rounded to, and Arrow has no digits to say that in.
        return lambda value: fixed(typed.type, np.zeros((len(value), 2), np.int64), validity(value))
    wide = pa.decimal128(precision, kind.scale) if precision <= MAX_PRECISION else pa.decimal256(precision, kind.scale)
    return lambda value: kernel(value.cast(wide)).cast(typed.type)


def _all_null(typed: TypedExpression) -> Kernel:
    return lambda left, _: pa.nulls(len(left), typed.type)


def _zero_as_null(value: Any) -> Any:
    zeros = numbers(value) == 0
    if not zeros.any():
        return value
    return fixed(value.type, numbers(value), bitmap(valid(value) & ~zeros))


def _integer_division(typed: TypedExpression, combine: Callable[[Any, Any], Any]) -> Kernel:
    """Quotient or remainder of integers, or of decimals of up to 18 digits at a common scale."""
    kinds = [argument.type for argument in typed.args]
    scale = max(kind.scale if pt.is_decimal(kind) else 0 for kind in kinds)
    unscaled = [_unscaled(argument, scale) for argument in typed.args]
    divisor = typed.args[1]
    if divisor.op == "literal" and divisor.value.as_py() == 0:
        return _all_null(typed)

    def kernel(left: Any, right: Any) -> pa.Array:
        one, other = unscaled[0](left), unscaled[1](right)
        nulls = validity(left, right)
        if isinstance(other, np.ndarray):
            zeros = other == 0
            if zeros.any():
                nulls = bitmap(_both_valid(left, right, len(other)) & ~zeros)
                other = np.where(zeros, 1, other)
        result = combine(one, other)
        if not isinstance(other, np.ndarray) and other != -1:
            return _integers(typed.type, result, nulls)
        overflow = (np.asarray(one) == _INT64.min) & (np.asarray(other) == -1)
        if combine is _truncated and (overflow & _both_valid(left, right, len(result))).any():
            raise RowError("overflow")
        return _integers(typed.type, result, nulls)

    return kernel


def _both_valid(left: Any, right: Any, rows: int) -> Mask:
    mask = np.ones(rows, np.bool_)
    for value in (left, right):
        if not isinstance(value, pa.Scalar):
            mask &= valid(value)
    return mask


def _truncated(one: Any, other: Any) -> Any:
    with np.errstate(all="ignore"):
        floored = np.floor_divide(one, other)
        if np.min(one, initial=0) >= 0 and np.min(other, initial=0) >= 0:
            return floored
        inexact = floored * other != one
        return floored + (inexact & ((np.asarray(one) < 0) != (np.asarray(other) < 0)))


def _left_over(one: Any, other: Any) -> Any:
    with np.errstate(all="ignore"):
        quotient = _truncated(one, other)
        if not isinstance(quotient, np.ndarray):
            return one - quotient * other
        quotient *= other
        return np.subtract(one, quotient, out=quotient)


def _unscaled(argument: TypedExpression, scale: int) -> Kernel:
    """Return how to read an argument as integers at this decimal scale."""
    kind = argument.type
    factor = 10 ** (scale - (kind.scale if pt.is_decimal(kind) else 0))
    read = reader(argument)
    if argument.op == "literal":
        value = read(argument.value) * factor
        return lambda _: value
    if pt.is_decimal(kind):
        return lambda value: read(value)[:, 0] * factor
    return lambda value: read(value).astype(np.int64, copy=False) * factor


def _integers(kind: pa.DataType, data: Any, nulls: pa.Buffer | None) -> pa.Array:
    if not pt.is_decimal(kind):
        return fixed(kind, data, nulls)
    return fixed(kind, _pairs(data), nulls)


def _pairs(low: Ints) -> Ints:
    """Return int64 as 128-bit integers."""
    pairs = np.empty((len(low), 2), np.int64)
    pairs[:, 0] = low
    np.right_shift(low, 63, out=pairs[:, 1])
    return pairs


def _float_remainder(typed: TypedExpression) -> Kernel:
    left, right = (reader(argument) for argument in typed.args)

    def kernel(one: Any, other: Any) -> pa.Array:
        dividend, divisor = left(one), right(other)
        zeros = np.asarray(divisor) == 0
        nulls = validity(one, other)
        with np.errstate(all="ignore"):
            result = np.fmod(dividend, divisor)
        if zeros.any():
            nulls = bitmap(_both_valid(one, other, len(result)) & ~zeros)
        return fixed(typed.type, result, nulls)

    return kernel


def _rounded_floats(kernel: Kernel, value: pa.Array, unit: float) -> pa.Array:
    """Round doubles; those that overflow when they are scaled are too great to have a fraction, and stay."""
    try:
        return kernel(value)
    except pa.ArrowInvalid:
        data = numbers(value)
        with np.errstate(over="ignore"):
            whole = np.isinf(data * unit) & np.isfinite(data)
        rounded = numbers(kernel(fixed(value.type, np.where(whole, 0.0, data), validity(value))))
        return fixed(value.type, np.where(whole, data, rounded), validity(value))


def _rounded_integers(value: pa.Array, unit: int) -> pa.Array:
    """Round integers to tens, hundreds, ...: exact, and an overflow is an error."""
    data = numbers(value)
    if unit > _INT64.max:
        return fixed(pa.int64(), np.zeros(len(data), np.int64), validity(value))
    rest = _left_over(data, unit)
    away = np.where(rest > unit // 2 - 1, unit, 0) - np.where(rest < 1 - unit // 2, unit, 0)
    with np.errstate(all="ignore"):
        result = (data - rest) + away
    wrapped = ((result < data) & (away > 0)) | ((result > data) & (away < 0))
    if (wrapped & valid(value)).any():
        raise RowError("overflow")
    return fixed(pa.int64(), result, validity(value))


def _decimal(typed: TypedExpression, name: str) -> Kernel:
    """An Arrow function of decimals; integers become decimals of the digits they have."""
    kernel = arrow(name)
    readers = [_as_decimal(argument) for argument in typed.args]
    return lambda left, right: kernel(readers[0](left), readers[1](right)).cast(typed.type)


def _as_decimal(argument: TypedExpression) -> Kernel:
    kind = argument.type
    if pt.is_decimal(kind):
        return lambda value: value
    wide = pa.decimal128(*digits_of(argument.kind))
    if argument.op == "literal":
        whole = pa.scalar(Decimal(argument.value.as_py()), wide)
        return lambda _: whole
    return lambda value: value.cast(wide)


def _scaled_product(typed: TypedExpression) -> Kernel:
    """A product of decimals. An integer column times a constant is one multiplication of 64 bits where that fits."""
    general = _decimal(typed, "multiply")
    column, factor = typed.args if typed.args[1].op == "literal" else typed.args[::-1]
    if factor.op != "literal" or not pt.is_integer(column.type) or column.type == pa.uint64():
        return general
    scale = reader(factor)(None)
    if scale == 0 or abs(scale) > _INT64.max:
        return general
    limit = _INT64.max // abs(scale)
    factor_word = np.int64(scale)

    def kernel(left: Any, right: Any) -> pa.Array:
        value = right if isinstance(left, pa.Scalar) else left
        data = numbers(value)
        if np.max(data, initial=0) > limit or np.min(data, initial=0) < -limit:
            return general(left, right)
        pairs = np.empty((len(data), 2), np.int64)
        np.multiply(data, factor_word, out=pairs[:, 0])
        np.right_shift(pairs[:, 0], 63, out=pairs[:, 1])
        return fixed(typed.type, pairs, validity(value))

    return kernel
