"""Casts as Spark SQL with Penstock's meaning: null where a value does not convert, never an error.

`spark_sql` writes every conversion of a typed expression with it; which nulls are errors of the row is its business.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.replay.spark_constants import missing, quoted
from penstock.replay.spark_types import ZONE, sql_type

Share = Callable[[str, Callable[[str], str]], str]
"""Writes a text that mentions another one several times, so that it is computed once where it is long."""

_ZONES = (None, ZONE, "Etc/UTC", "+00:00")
_INTEGER = r"\A[+-]?[0-9]+\z"
_REAL = r"\A[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\z"
_SPECIAL = r"\A(?i:[+-]?(nan|inf|infinity))\z"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DAY = rf"\A{_DATE}\z"
# Arrow wants a clock before a zone; Spark wants minutes behind an hour, and a colon in an offset.
_CLOCK = "[ T][0-9]{2}(:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?)?"
_INSTANT = rf"\A{_DATE}({_CLOCK}(Z|[+-][0-9]{{2}}:?[0-9]{{2}})?)?\z"
_BARE_HOUR = rf"\A({_DATE}[ T][0-9]{{2}})(?!:|[0-9])"
_BARE_MINUTE = rf"\A({_DATE}[ T][0-9]{{2}}:[0-9]{{2}})(?!:|[0-9])"
_BARE_OFFSET = r"([+-][0-9]{2})([0-9]{2})\z"
_CLOCK_FORMATS = {"s": "yyyy-MM-dd HH:mm:ss", "ms": "yyyy-MM-dd HH:mm:ss.SSS", "us": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
_TRUNCATED = {"s": "SECOND", "ms": "MILLISECOND"}
_FROM_TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}


class NoCounterpartError(Exception):
    """An operation that Spark SQL cannot compute exactly; the text says why."""


def cast(text: str, source: pa.DataType, target: pa.DataType, share: Share) -> str:
    """Return the text of a value converted from one type to another.

    Raises:
        NoCounterpartError: Spark converts some values otherwise.
    """
    if source == target:
        return text
    if pt.is_null(source):
        return missing(target)
    if pt.is_boolean(target):
        return _to_boolean(text, source)
    if pt.is_integer(target):
        return _to_integer(text, source, target, share)
    if pt.is_decimal(target):
        return _to_decimal(text, source, target)
    if pt.is_floating(target):
        return _to_float(text, source, target, share)
    if pt.is_string(target):
        return _to_text(text, source)
    if pt.is_date(target):
        return _to_date(text, source)
    if pt.is_timestamp(target):
        return _to_timestamp(text, source, target)
    # Binary from text, and durations of another unit.
    return f"CAST({text} AS {sql_type(target)})"


def local(text: str, kind: pa.DataType) -> str:
    """Return a date or timestamp as what a clock in its zone shows."""
    if not pt.is_timestamp(kind) or kind.tz is None:
        return text if pt.is_timestamp(kind) else f"CAST({text} AS TIMESTAMP_NTZ)"
    naive = f"CAST({text} AS TIMESTAMP_NTZ)"
    return naive if is_utc(kind) else f"convert_timezone('UTC', {quoted(kind.tz)}, {naive})"


def is_utc(kind: pa.DataType) -> bool:
    """Return whether a timestamp's clock is that of UTC."""
    return kind.tz in _ZONES


def matching(text: str, pattern: str) -> str:
    """Return text where all of it matches a pattern of Java's, and empty text elsewhere."""
    return f"regexp_extract({text}, {quoted(pattern)}, 0)"


def truncated(text: str, share: Share) -> str:
    """Return a double without its fraction."""
    zero = "CAST('NaN' AS DOUBLE)"
    return share(text, lambda x: f"({x} - COALESCE(NULLIF({x} % 1D, {zero}), 0D))")


def _to_boolean(text: str, source: pa.DataType) -> str:
    if not pt.is_string(source):
        return f"CAST({text} AS BOOLEAN)"
    return (
        f"CASE lower({text}) WHEN 'true' THEN TRUE WHEN '1' THEN TRUE WHEN 'false' THEN FALSE WHEN '0' THEN FALSE END"
    )


def _to_integer(text: str, source: pa.DataType, target: pa.DataType, share: Share) -> str:
    if pt.is_boolean(source):
        return f"CAST({text} AS {sql_type(target)})"
    limits = np.iinfo(target.to_pandas_dtype())
    if pt.is_string(source):
        wide = f"try_cast({matching(text, _INTEGER)} AS BIGINT)"
    elif pt.is_floating(source):
        if target == pa.uint64():
            raise NoCounterpartError("Spark rounds what lies beyond 64 bits")
        double = f"CAST({text} AS DOUBLE)"
        # Spark takes 2.0**63, the first double beyond, for the greatest number of 64 bits.
        wide = share(double, lambda x: f"try_cast(CASE WHEN {x} < {float(2**63)!r}D THEN {x} END AS BIGINT)")
    elif pt.is_decimal(source):
        if target == pa.uint64():
            raise NoCounterpartError("Spark has no unsigned numbers of 64 bits to truncate to")
        wide = f"try_cast({text} AS BIGINT)"
    else:
        wide = text
    if target == pa.int64():
        return wide if wide is not text else f"try_cast({text} AS BIGINT)"
    low, high = (f"CAST('{limit}' AS DECIMAL(20, 0))" for limit in (limits.min, limits.max))
    return share(wide, lambda x: f"CASE WHEN {x} BETWEEN {low} AND {high} THEN CAST({x} AS {sql_type(target)}) END")


def _to_decimal(text: str, source: pa.DataType, target: pa.DataType) -> str:
    if pt.is_floating(source):
        raise NoCounterpartError("Spark rounds the digits of a floating point number, not its value")
    if pt.is_string(source):
        return f"try_cast({matching(text, _REAL)} AS {sql_type(target)})"
    return f"try_cast({text} AS {sql_type(target)})"


def _to_float(text: str, source: pa.DataType, target: pa.DataType, share: Share) -> str:
    name = sql_type(target)
    if pt.is_string(source):
        return share(text, lambda x: _float_from_text(x, name))
    return f"CAST({text} AS {name})"


def _float_from_text(text: str, name: str) -> str:
    special = (
        f"WHEN lower({text}) LIKE '%nan' THEN CAST('NaN' AS {name}) "
        f"WHEN {text} LIKE '-%' THEN CAST('-Infinity' AS {name}) ELSE CAST('Infinity' AS {name}) END"
    )
    return (
        f"CASE WHEN {text} RLIKE {quoted(_REAL)} THEN try_cast({text} AS {name}) "
        f"WHEN {text} RLIKE {quoted(_SPECIAL)} THEN CASE {special} END"
    )


def _to_text(text: str, source: pa.DataType) -> str:
    if pt.is_floating(source):
        raise NoCounterpartError("Spark writes floating point numbers otherwise")
    if pt.is_decimal(source) and source.scale > 6:
        raise NoCounterpartError("Spark writes small decimals otherwise")
    if pt.is_binary(source):
        return f"try_validate_utf8(CAST({text} AS STRING))"
    if pt.is_timestamp(source):
        if not is_utc(source):
            raise NoCounterpartError("Spark writes no offsets of zones")
        written = f"date_format({local(text, source)}, {quoted(_CLOCK_FORMATS[source.unit])})"
        return written if source.tz is None else f"concat({written}, 'Z')"
    return f"CAST({text} AS STRING)"


def _to_date(text: str, source: pa.DataType) -> str:
    if pt.is_string(source):
        return f"try_cast({matching(text, _DAY)} AS DATE)"
    return f"CAST({local(text, source)} AS DATE)"


def _to_timestamp(text: str, source: pa.DataType, target: pa.DataType) -> str:
    name = sql_type(target)
    if pt.is_integer(source):
        ticks = f"try_cast({text} AS BIGINT)"
        factor = _FROM_TICKS[target.unit]
        micros = ticks if factor == 1 else f"try_multiply({ticks}, {factor}L)"
        return f"CAST(timestamp_micros({micros}) AS {name})"
    if pt.is_string(source):
        minutes = f"regexp_replace({matching(text, _INSTANT)}, {quoted(_BARE_HOUR)}, '\\u00241:00')"
        # Spark reads no offset behind minutes.
        seconds = f"regexp_replace({minutes}, {quoted(_BARE_MINUTE)}, '\\u00241:00')"
        offset = f"regexp_replace({seconds}, {quoted(_BARE_OFFSET)}, '\\u00241:\\u00242')"
        text, unit = f"try_cast({offset} AS TIMESTAMP)", "us"
    else:
        unit = source.unit if pt.is_timestamp(source) else target.unit
    if _FROM_TICKS[unit] < _FROM_TICKS[target.unit]:
        text = f"date_trunc('{_TRUNCATED[target.unit]}', {text})"
    naive = f"CAST({text} AS TIMESTAMP_NTZ)" if pt.is_date(source) else text
    return f"CAST({naive} AS {name})"
