"""The named functions of expressions as Spark SQL: one text for every entry of `model.functions`.

`spark_sql` calls it with the texts of the arguments.
"""

from collections.abc import Callable
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.model.functions import format_pieces, truncation
from penstock.model.typed_expressions import TypedExpression
from penstock.replay.java_patterns import ForeignPatternError, to_java
from penstock.replay.spark_casts import NoCounterpartError, Share, is_utc, local, truncated
from penstock.replay.spark_constants import quoted
from penstock.replay.spark_types import quoted_name, sql_type

Written = Callable[[TypedExpression, list[str], Share], str]

_INFINITY = "CAST('Infinity' AS DOUBLE)"
_NAN = "CAST('NaN' AS DOUBLE)"
_JAVA_TIMES = {
    "Y": "yyyy",
    "m": "MM",
    "d": "dd",
    "H": "HH",
    "M": "mm",
    "S": "ss",
    "f": "SSSSSS",
    "j": "DDD",
    "y": "yy",
}
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


def write_call(typed: TypedExpression, texts: list[str], share: Share) -> str:
    """Return the text of a named function of these arguments.

    Raises:
        NoCounterpartError: Spark cannot compute it exactly.
    """
    if typed.op not in _WRITERS:
        raise NoCounterpartError(f"{typed.op} is Penstock's own")
    return _WRITERS[typed.op](typed, texts, share)


def _java(pattern: str) -> str:
    try:
        return quoted(to_java(pattern))
    except ForeignPatternError as error:
        raise NoCounterpartError(f"the regular expression {pattern!r} is RE2's: {error}") from None


def _extract(typed: TypedExpression, texts: list[str], share: Share) -> str:
    pattern, group = typed.value
    java = _java(pattern)
    return share(texts[0], lambda x: f"CASE WHEN {x} RLIKE {java} THEN regexp_extract({x}, {java}, {group}) END")


def _like(typed: TypedExpression, texts: list[str], share: Share) -> str:
    pattern = typed.value[0]
    escape = next(mark for mark in "!|~^@" + "".join(map(chr, range(0xE000, 0xE100))) if mark not in pattern)
    return f"({texts[0]} LIKE {quoted(pattern)} ESCAPE {quoted(escape)})"


def _substring(typed: TypedExpression, texts: list[str], share: Share) -> str:
    start, length = typed.value
    return f"substring({texts[0]}, {start})" if length is None else f"substring({texts[0]}, {start}, {length})"


def _split(typed: TypedExpression, texts: list[str], share: Share) -> str:
    separator, index = typed.value
    return f"get(split({texts[0]}, {quoted(_verbatim(separator))}, -1), {index - 1})"


def _verbatim(text: str) -> str:
    return "".join(f"\\x{{{ord(letter):X}}}" for letter in text)


def _trim(side: str) -> Written:
    return lambda typed, texts, _: f"trim({side} {quoted(typed.value[0])} FROM {texts[0]})"


def _case_of(function: str) -> Written:
    def write(_typed: TypedExpression, texts: list[str], _share: Share) -> str:
        old, new = _letters(function)
        return f"translate({texts[0]}, {old}, {new})"

    return write


@cache
def _letters(function: str) -> tuple[str, str]:
    """Return the code points that a function of Arrow changes, and to what; Spark's own make two of some."""
    code_points = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    changed = pc.call_function(function, [pa.array(code_points)]).to_pylist()
    pairs = [(old, new) for old, new in zip(code_points, changed, strict=True) if old != new]
    return quoted("".join(old for old, _ in pairs)), quoted("".join(new for _, new in pairs))


def _part(function: str) -> Written:
    return lambda typed, texts, _: f"CAST({function}({local(texts[0], typed.args[0].type)}) AS BIGINT)"


def _micros(typed: TypedExpression, text: str) -> str:
    """Return the microseconds since 1970 of what a clock in the time's zone shows."""
    return f"unix_micros(CAST({local(text, typed.args[0].type)} AS TIMESTAMP))"


def _epoch(function: str) -> Written:
    def write(typed: TypedExpression, texts: list[str], _share: Share) -> str:
        text = f"CAST({texts[0]} AS TIMESTAMP_NTZ)" if pt.is_date(typed.args[0].type) else texts[0]
        return f"{function}(CAST({text} AS TIMESTAMP))"

    return write


def _truncate(typed: TypedExpression, texts: list[str], share: Share) -> str:
    kind = typed.args[0].type
    if not is_utc(kind):
        raise NoCounterpartError(f"Spark does not truncate by the clock of {kind.tz}")
    length = truncation(typed.value[0])
    if isinstance(length, str):
        return f"CAST(date_trunc('{length.upper()}', {texts[0]}) AS {sql_type(kind)})"
    micros = f"unix_micros(CAST({texts[0]} AS TIMESTAMP))"
    for step in (length, _UNIT_US[kind.unit]):
        if step == length or length % step:
            micros = share(micros, lambda x, step=step: f"({x} - pmod({x}, {step}L))")  # type: ignore[misc]
    return f"CAST(timestamp_micros({micros}) AS {sql_type(kind)})"


def _format(typed: TypedExpression, texts: list[str], share: Share) -> str:
    pieces = []
    for letter, between in format_pieces(typed.value[0]):
        pieces.append(_JAVA_TIMES[letter] if letter else "'" + between.replace("'", "''") + "'")
    pattern = "".join(pieces)
    return f"date_format({local(texts[0], typed.args[0].type)}, {quoted(pattern)})"


def _round(typed: TypedExpression, texts: list[str], share: Share) -> str:
    kind, digits = typed.args[0].type, typed.value[0]
    text = texts[0]
    if pt.is_decimal(kind):
        return f"try_cast(round({text}, {digits}) AS {sql_type(typed.type)})"
    if pt.is_integer(kind):
        return text if digits >= 0 else f"try_cast(round(CAST({text} AS DECIMAL(19, 0)), {digits}) AS BIGINT)"
    if not digits:
        return f"round({text})"
    # Arrow rounds the scaled number, whose last digit may be off, not the decimal digits of the number.
    scale_operator, back = ("*", "/") if digits > 0 else ("/", "*")
    unit = f"1E{abs(digits)}D"

    def rounded(x: str) -> str:
        scaled = f"({x} {scale_operator} {unit})"
        return (
            f"CASE WHEN isnan({x}) OR abs({x}) = {_INFINITY} OR round({scaled}) = {scaled} THEN {x} "
            f"ELSE round({scaled}) {back} {unit} END"
        )

    return share(text, rounded)


def _whole(function: str) -> Written:
    def write(typed: TypedExpression, texts: list[str], share: Share) -> str:
        kind = typed.args[0].type
        if pt.is_integer(kind):
            return texts[0]
        if pt.is_decimal(kind):
            return f"try_cast({function}({texts[0]}) AS {sql_type(typed.type)})"
        limit = f"{float(2**53)!r}D"
        return share(
            texts[0], lambda x: f"CASE WHEN abs({x}) < {limit} THEN CAST({function}({x}) AS DOUBLE) ELSE {x} END"
        )

    return write


def _abs(typed: TypedExpression, texts: list[str], share: Share) -> str:
    if pt.is_integer(typed.type):
        return f"try_cast(abs(CAST({texts[0]} AS DECIMAL(19, 0))) AS BIGINT)"
    return f"abs({texts[0]})"


def _sign(typed: TypedExpression, texts: list[str], share: Share) -> str:
    text = f"nanvl({texts[0]}, 0D)" if pt.is_floating(typed.args[0].type) else texts[0]
    return f"CAST(sign({text}) AS BIGINT)"


def _ln(typed: TypedExpression, texts: list[str], share: Share) -> str:
    def write(x: str) -> str:
        return f"CASE WHEN {x} > 0D THEN ln({x}) WHEN {x} = 0D THEN -{_INFINITY} WHEN {x} < 0D THEN {_NAN} END"

    return share(texts[0], write)


def _power(typed: TypedExpression, texts: list[str], share: Share) -> str:
    """C's power of one is one, whatever the exponent; Java's is NaN for NaN and the infinities."""

    def write(x: str, y: str) -> str:
        one = f"{x} = 1D AND {y} IS NOT NULL OR {x} = -1D AND abs({y}) = {_INFINITY}"
        return f"CASE WHEN {one} THEN 1D ELSE power({x}, {y}) END"

    return share(texts[0], lambda x: share(texts[1], lambda y: write(x, y)))


def _concat(typed: TypedExpression, texts: list[str], share: Share) -> str:
    return f"concat({', '.join(texts)})"


def _field(typed: TypedExpression, texts: list[str], share: Share) -> str:
    struct = typed.args[0].type
    return f"{texts[0]}.{quoted_name(struct.field(typed.value).name)}"


def _with(function: str) -> Written:
    """A function of Spark that takes the text and the constants as they are."""
    return lambda typed, texts, _: f"{function}({', '.join([texts[0], *map(quoted, typed.value or ())])})"


_WRITERS: dict[str, Written] = {
    "lower": _case_of("utf8_lower"),
    "upper": _case_of("utf8_upper"),
    "length": lambda _, texts, __: f"CAST(char_length({texts[0]}) AS BIGINT)",
    "substring": _substring,
    "split_part": _split,
    "like": _like,
    "regexp_matches": lambda typed, texts, _: f"({texts[0]} RLIKE {_java(typed.value[0])})",
    "regexp_extract": _extract,
    "count_char": lambda typed, texts, _: (
        f"CAST(regexp_count({texts[0]}, {quoted(_verbatim(typed.value[0]))}) AS BIGINT)"
    ),
    "starts_with": _with("startswith"),
    "ends_with": _with("endswith"),
    "contains": _with("contains"),
    "replace": _with("replace"),
    "trim": _trim("BOTH"),
    "ltrim": _trim("LEADING"),
    "rtrim": _trim("TRAILING"),
    **{part: _part(part) for part in ("year", "month", "day", "hour", "minute", "second", "dayofyear")},
    "isodow": lambda typed, texts, _: f"CAST(weekday({local(texts[0], typed.args[0].type)}) + 1 AS BIGINT)",
    "millisecond": lambda typed, texts, _: f"(pmod({_micros(typed, texts[0])}, 1000000L) div 1000L)",
    "date": lambda typed, texts, _: f"CAST({local(texts[0], typed.args[0].type)} AS DATE)",
    "truncate": _truncate,
    "strftime": _format,
    "epoch_us": _epoch("unix_micros"),
    "epoch_ms": _epoch("unix_millis"),
    "abs": _abs,
    "sign": _sign,
    "round": _round,
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "sqrt": _with("sqrt"),
    "exp": _with("exp"),
    "ln": _ln,
    "power": _power,
    "concat": _concat,
    "struct_extract": _field,
}


def truncated_quotient(texts: list[str], share: Share) -> str:
    """Return the quotient of doubles without its fraction."""
    return truncated(f"try_divide({texts[0]}, {texts[1]})", share)
