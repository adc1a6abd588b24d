"""Constants: Python values as nodes of the expression tree, and nodes back as Arrow scalars.

A float is DOUBLE (written with an exponent), a `Decimal` is DECIMAL (written with a point), an int is BIGINT.
"""

import datetime
import decimal
import math
import numbers
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from penstock.model.durations import UNITS_US
from penstock.model.errors import ExpressionError
from penstock.model.type_names import from_sql_type, to_sql_type

Literal = (
    None | bool | int | float | str | bytes | decimal.Decimal | datetime.datetime | datetime.date | datetime.timedelta
)
"""A Python value that can stand in an expression."""

_INT64 = range(-(2**63), 2**63)
_MICROSECOND = datetime.timedelta(microseconds=1)


def to_node(value: Any, place: str) -> exp.Expr:
    """Return the node of a constant.

    Raises:
        ExpressionError: the value has no SQL counterpart; the message names ``place``.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, numbers.Integral):
        if int(value) not in _INT64:
            raise ExpressionError(f"{value} at {place} does not fit in 64 bits: write a Decimal.")
        return _signed(str(abs(int(value))), int(value) < 0)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, decimal.Decimal):
        return _decimal(value, place)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    if isinstance(value, datetime.datetime | datetime.date):
        return _cast(exp.Literal.string(_iso(value)), _time_type(value))
    if isinstance(value, datetime.timedelta):
        return exp.Interval(this=exp.Literal.string(str(value // _MICROSECOND)), unit=exp.Var(this="MICROSECOND"))
    raise ExpressionError(
        f"{value!r} at {place} cannot stand in an expression: use a number, text, a truth value, a date, a time, "
        "None, or another expression."
    )


def to_scalar(node: exp.Expr) -> pa.Scalar | None:
    """Return the value of a node that is a constant as it stands; None for any other node.

    Raises:
        ValueError: a constant out of range; the message says which.
    """
    if isinstance(node, exp.Paren):
        return to_scalar(node.this)
    if isinstance(node, exp.Null):
        return pa.scalar(None, pa.null())
    if isinstance(node, exp.Boolean):
        return pa.scalar(bool(node.this), pa.bool_())
    if isinstance(node, exp.HexString):
        return pa.scalar(bytes.fromhex(node.name), pa.binary())
    if isinstance(node, exp.Literal):
        return pa.scalar(node.name, pa.string()) if node.is_string else _number(node.name)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return None if node.this.is_string else _number("-" + node.this.name)
    if isinstance(node, exp.Interval):
        return _interval(node)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        inner = to_scalar(node.this)
        kind = from_sql_type(node.to)
        return None if inner is None or kind is None else _cast_scalar(inner, kind)
    return None


def decimal_scalar(value: decimal.Decimal) -> pa.Scalar:
    """Return a decimal in the narrowest type that holds it.

    Raises:
        ValueError: it needs more than 38 digits.
    """
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a number")
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise ValueError(f"{value} needs more than 38 digits")
    return pa.scalar(value, pa.decimal128(precision, scale))


def _signed(text: str, negative: bool) -> exp.Expr:
    number = exp.Literal.number(text)
    return exp.Neg(this=number) if negative else number


def _float(value: float) -> exp.Expr:
    if not math.isfinite(value):
        return _cast(exp.Literal.string(str(value)), pa.float64())
    text = repr(abs(value))
    return _signed(text if "e" in text else f"{text}e0", math.copysign(1.0, value) < 0)


def _decimal(value: decimal.Decimal, place: str) -> exp.Expr:
    try:
        kind = decimal_scalar(value).type
    except ValueError as error:
        raise ExpressionError(f"{error} at {place}: a decimal has up to 38 digits.") from None
    number = _signed(format(abs(value), "f"), value.is_signed())
    return number if kind.scale else _cast(number, kind)


def _iso(value: datetime.datetime | datetime.date) -> str:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else value.isoformat()


def _time_type(value: datetime.datetime | datetime.date) -> pa.DataType:
    if not isinstance(value, datetime.datetime):
        return pa.date32()
    return pa.timestamp("us") if value.tzinfo is None else pa.timestamp("us", "UTC")


def _cast(node: exp.Expr, kind: pa.DataType) -> exp.Expr:
    return exp.Cast(this=node, to=to_sql_type(kind))


def _number(text: str) -> pa.Scalar:
    if "e" in text.lower():
        return pa.scalar(float(text), pa.float64())
    if "." in text or int(text) not in _INT64:
        return decimal_scalar(decimal.Decimal(text))
    return pa.scalar(int(text), pa.int64())


def _interval(node: exp.Interval) -> pa.Scalar:
    unit = node.args["unit"].name.lower() if node.args.get("unit") else ""
    count = to_scalar(node.this)
    if unit not in UNITS_US or count is None or count.type not in (pa.string(), pa.int64()):
        raise ValueError("an interval is a number of weeks, days, hours, minutes, seconds or less")
    return pa.scalar(int(count.as_py()) * UNITS_US[unit], pa.duration("us"))


def _cast_scalar(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """Cast where the result does not depend on the rules for rows; None leaves it to the row."""
    if not value.is_valid:
        return pa.scalar(None, kind)
    if pa.types.is_decimal(kind) and (value.type == pa.int64() or pa.types.is_decimal(value.type)):
        try:
            return pa.scalar(decimal.Decimal(value.as_py()), kind)
        except pa.ArrowInvalid:
            return None
    from_text = pa.types.is_timestamp(kind) or pa.types.is_date32(kind) or kind == pa.float64()
    if value.type == pa.string() and from_text:
        try:
            zoned = kind if not pa.types.is_timestamp(kind) else pa.timestamp(kind.unit)
            return value.cast(zoned).cast(kind)
        except pa.ArrowInvalid:
            return None
    return value if value.type == kind else None
