"""Conversion between Arrow types and SQL's names, and the names that casts accept.

`expressions` and `literals` build casts with it, `expression_types` reads the casts.
"""

import datetime
import re
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.model.errors import ExpressionError

DataTypeLike = Any
"""An Arrow type, a type name in SQL's or Arrow's words, or one of bool, int, float, str, bytes, datetime, date."""

_BY_SQL_NAME: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}
_SQL_SYNONYMS = {"VARCHAR": "TEXT", "CHAR": "TEXT", "TIMESTAMPNTZ": "TIMESTAMP", "BINARY": "VARBINARY"}
_TO_SQL_NAME = {kind: name for name, kind in _BY_SQL_NAME.items()}
_PYTHON_TYPES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime.datetime: pa.timestamp("us"),
    datetime.date: pa.date32(),
}
_DECIMAL = re.compile(r"(?:decimal|numeric|decimal128)\s*\(\s*(\d+)\s*,\s*(-?\d+)\s*\)", re.IGNORECASE)
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=UTC\]")


def to_arrow(kind: DataTypeLike) -> pa.DataType:
    """Return the Arrow type a user means by ``kind``.

    Raises:
        ExpressionError: there is no such type, or it cannot be the target of a cast.
    """
    arrow = _read(kind)
    if arrow is None or not is_writable(arrow):
        raise ExpressionError(
            f"{kind!r} is not a type to cast to: use int, float, str, bool, a name such as 'bigint', 'double', "
            "'decimal(10, 2)', 'timestamp' or 'date', or a pyarrow type."
        )
    return arrow


def is_writable(kind: pa.DataType) -> bool:
    """Whether the type can be the target of a cast."""
    return kind in _TO_SQL_NAME or pa.types.is_decimal128(kind) or bool(_ZONED.fullmatch(str(kind)))


def to_sql_type(kind: pa.DataType) -> exp.DataType:
    """Return the SQL type node of a type that `is_writable`."""
    if pa.types.is_decimal128(kind):
        both = (kind.precision, kind.scale)
        sizes = [exp.DataTypeParam(this=exp.Literal.number(size)) for size in both]
        return exp.DataType(this=exp.DType.DECIMAL, expressions=sizes)
    if kind in _TO_SQL_NAME:
        return exp.DataType(this=exp.DType[_TO_SQL_NAME[kind]])
    return exp.DataType(this=exp.DType.USERDEFINED, kind=str(kind))


def from_sql_type(node: exp.DataType) -> pa.DataType | None:
    """Return the Arrow type of a SQL type node; None when it has no single counterpart."""
    if node.this == exp.DType.DECIMAL:
        sizes = [int(parameter.name) for parameter in node.expressions]
        if not sizes or not 1 <= sizes[0] <= 38:
            return None
        return pa.decimal128(sizes[0], sizes[1] if len(sizes) > 1 else 0)
    if node.this == exp.DType.USERDEFINED:
        zoned = _ZONED.fullmatch(str(node.args.get("kind")))
        return pa.timestamp(zoned[1], "UTC") if zoned else None
    name = getattr(node.this, "name", "")
    return _BY_SQL_NAME.get(_SQL_SYNONYMS.get(name, name))


def _read(kind: DataTypeLike) -> pa.DataType | None:
    if isinstance(kind, pa.DataType):
        return kind
    if not isinstance(kind, str):
        return _PYTHON_TYPES.get(kind)
    sizes = _DECIMAL.fullmatch(kind.strip())
    if sizes:
        return pa.decimal128(int(sizes[1]), int(sizes[2])) if 1 <= int(sizes[1]) <= 38 else None
    try:
        return pa.type_for_alias(kind)
    except ValueError:
        pass
    try:
        return from_sql_type(exp.DataType.build(kind, dialect="duckdb"))
    except (SqlglotError, ValueError):
        return None
