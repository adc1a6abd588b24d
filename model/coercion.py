"""Coercion of types: the result types of arithmetic, comparisons and branches of a case.

Pure functions on Arrow types, called by `expression_types`. Where a type is given as ``OperandType`` it says whether it
is that of a constant, which adapts to the other side: an integer constant counts only the digits it has.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_UNITS = ("s", "ms", "us", "ns")
MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class OperandType:
    """A type, and the value if it is that of a constant."""

    type: pa.DataType
    constant: pa.Scalar | None = None


class CombinationError(Exception):
    """Two types do not combine; the text is the reason with a remedy, or empty."""


def arithmetic_type(operator: str, left: OperandType, right: OperandType) -> pa.DataType:
    """Return the type of ``left operator right`` (add, sub, mul, div, quotient, remainder).

    Raises:
        CombinationError: there is no such operation.
    """
    if pt.is_null(left.type) or pt.is_null(right.type):
        other = right.type if pt.is_null(left.type) else left.type
        if not (is_number(other) or pt.is_null(other) or is_time(other)):
            raise CombinationError("")
        return pa.float64() if operator == "div" else other
    if is_number(left.type) and is_number(right.type):
        return _number_type(operator, left, right)
    return _time_type(operator, left.type, right.type)


def common_type(left: OperandType, right: OperandType) -> pa.DataType:
    """Return the type to which both convert without loss: branches of a case, sides of a comparison.

    Raises:
        CombinationError: there is none.
    """
    if left.type == right.type or pt.is_null(right.type):
        return left.type
    if pt.is_null(left.type):
        return right.type
    if is_number(left.type) and is_number(right.type):
        return _common_number(left, right)
    if pt.is_timestamp(left.type) and pt.is_timestamp(right.type):
        return pa.timestamp(_finer(left.type, right.type), left.type.tz or right.type.tz)
    if pt.is_duration(left.type) and pt.is_duration(right.type):
        return pa.duration(_finer(left.type, right.type))
    dates = (pt.is_date(left.type), pt.is_date(right.type))
    if dates[0] and pt.is_timestamp(right.type):
        return right.type
    if dates[1] and pt.is_timestamp(left.type):
        return left.type
    raise CombinationError("")


def is_number(kind: pa.DataType) -> bool:
    """Whether values add up: integers, floating point and decimals."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def is_time(kind: pa.DataType) -> bool:
    """Whether the type is a date, a timestamp or a duration."""
    return bool(pt.is_date(kind) or pt.is_timestamp(kind) or pt.is_duration(kind))


def digits_of(kind: OperandType) -> tuple[int, int]:
    """Return the (precision, scale) of an integer or decimal type."""
    if pt.is_decimal(kind.type):
        return kind.type.precision, kind.type.scale
    if kind.constant is not None and kind.constant.is_valid:
        return len(str(abs(kind.constant.as_py()))), 0
    if kind.type == pa.uint64():
        return 20, 0
    return _DIGITS[kind.type.bit_width], 0


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """Return a decimal type.

    Raises:
        CombinationError: it would need more than 38 digits.
    """
    if precision > MAX_PRECISION:
        raise CombinationError(
            f"the result would need {precision} digits and a decimal has {MAX_PRECISION}: cast to fewer digits or to "
            "double first"
        )
    return pa.decimal128(max(precision, 1), scale)


def _number_type(operator: str, left: OperandType, right: OperandType) -> pa.DataType:
    if operator == "div" or pt.is_floating(left.type) or pt.is_floating(right.type):
        return pa.float64()
    if not (pt.is_decimal(left.type) or pt.is_decimal(right.type)):
        return pa.int64()
    (p1, s1), (p2, s2) = digits_of(left), digits_of(right)
    scale = max(s1, s2)
    if operator == "mul":
        return decimal_type(p1 + p2 + 1, s1 + s2)
    if operator in ("add", "sub"):
        return decimal_type(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if max(p1 - s1, p2 - s2) + scale > 18:
        raise CombinationError("decimals of more than 18 digits have no // and %: cast to double first")
    return pa.int64() if operator == "quotient" else decimal_type(min(p1 - s1, p2 - s2) + scale, scale)


def _time_type(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if operator == "add" and pt.is_duration(left) and not pt.is_duration(right):
        left, right = right, left
    if operator in ("add", "sub") and pt.is_duration(right):
        if pt.is_timestamp(left):
            return pa.timestamp(_finer(left, right), left.tz)
        if pt.is_date(left):
            return pa.timestamp(right.unit)
        if pt.is_duration(left):
            return pa.duration(_finer(left, right))
    instants = all(pt.is_timestamp(kind) or pt.is_date(kind) for kind in (left, right))
    if operator == "sub" and instants:
        return pa.duration(_finer(left, right))
    raise CombinationError("")


def _common_number(left: OperandType, right: OperandType) -> pa.DataType:
    if pt.is_floating(left.type) or pt.is_floating(right.type):
        both = pt.is_floating(left.type) and pt.is_floating(right.type)
        return pa.float32() if both and left.type == right.type else pa.float64()
    if pt.is_decimal(left.type) or pt.is_decimal(right.type):
        (p1, s1), (p2, s2) = digits_of(left), digits_of(right)
        scale = max(s1, s2)
        return decimal_type(max(p1 - s1, p2 - s2) + scale, scale)
    for constant, other in ((left, right), (right, left)):
        if constant.constant is not None and _fits(constant.constant, other.type):
            return other.type
    if pt.is_signed_integer(left.type) == pt.is_signed_integer(right.type):
        return max(left.type, right.type, key=lambda kind: kind.bit_width)
    return pa.int64()


def _fits(value: pa.Scalar, kind: pa.DataType) -> bool:
    bits = kind.bit_width
    if pt.is_signed_integer(kind):
        return bool(-(2 ** (bits - 1)) <= value.as_py() < 2 ** (bits - 1))
    return bool(0 <= value.as_py() < 2**bits)


def _finer(left: pa.DataType, right: pa.DataType) -> str:
    units = [kind.unit if not pt.is_date(kind) else "s" for kind in (left, right)]
    return max(units, key=_UNITS.index)
