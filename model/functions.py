"""The named functions of expressions: subjects, result types, and constant options.

`expression_types` checks calls against this table; the engine has a kernel for every entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.model.coercion import decimal_type
from penstock.model.durations import UNITS_US, to_microseconds
from penstock.model.errors import OptionError
from penstock.model.regular_expressions import complaint, only_group

Complaint = str | None


@dataclass(frozen=True, slots=True)
class Option:
    """A constant argument; ``check`` returns what is wrong with a value. Without a default it must be given."""

    name: str
    kind: type[str] | type[int]
    check: Callable[[Any], Complaint] = lambda _: None
    default: Any = None
    required: bool = True


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one value: ``subject`` is text, time, number or timestamp; then come constant options.

    ``check_all`` looks at all options together.
    """

    subject: str
    result: Callable[[pa.DataType, tuple[Any, ...]], pa.DataType]
    options: tuple[Option, ...] = ()
    check_all: Callable[[tuple[Any, ...]], Complaint] = lambda _: None


TRUNCATIONS = ("week", "month", "quarter", "year")
"""Calendar units of ``truncate``; all others are a number of microseconds."""

FORMATS = {
    "Y": 4,
    "m": 2,
    "d": 2,
    "H": 2,
    "M": 2,
    "S": 2,
    "f": 6,
    "j": 3,
    "y": 2,
}
"""Directives of ``strftime`` and how many digits each writes."""

_ABBREVIATIONS = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M"}
_CLOCK_UNITS = ("millisecond", "second", "minute", "hour", "day")


def truncation(unit: str) -> int | str:
    """Return the interval of a ``truncate`` unit: microseconds, or one of `TRUNCATIONS`.

    Raises:
        ValueError: there is no such unit.
    """
    word = unit.strip().lower()
    word = "week" if word == "1w" else word.removesuffix("s") if len(word) > 3 else word
    if word in TRUNCATIONS:
        return word
    if word in _CLOCK_UNITS:
        return UNITS_US[word]
    try:
        length = to_microseconds(unit)
    except OptionError:
        length = 0
    if length == 0:
        raise ValueError(f"must be a duration such as '15m', or hour, day, week, month, quarter or year, not {unit!r}")
    return length


def format_pieces(pattern: str) -> tuple[tuple[str, str], ...]:
    """Split a ``strftime`` pattern into (directive letter, "") and ("", text between directives).

    Raises:
        ValueError: it has a directive that is not in `FORMATS`.
    """
    pieces: list[tuple[str, str]] = []
    position = 0
    while position < len(pattern):
        size = 2 if pattern[position] == "%" else 1
        token = pattern[position : position + size]
        position += size
        if token in _ABBREVIATIONS:
            pieces += format_pieces(_ABBREVIATIONS[token])
        elif token == "%%" or size == 1:
            text = pieces.pop()[1] if pieces and not pieces[-1][0] else ""
            pieces.append(("", text + token[0]))
        elif token[1:] in FORMATS:
            pieces.append((token[1:], ""))
        else:
            directives = ", ".join(f"%{letter}" for letter in FORMATS)
            raise ValueError(f"has {token}, and there are {directives}, %F, %T, %R and %%")
    return tuple(pieces)


def _gives(kind: pa.DataType) -> Callable[[pa.DataType, tuple[Any, ...]], pa.DataType]:
    return lambda _subject, _options: kind


def _rounded(kind: pa.DataType, options: tuple[Any, ...]) -> pa.DataType:
    if not pt.is_decimal(kind):
        return pa.int64() if pt.is_integer(kind) else pa.float64()
    digits = min(kind.scale, max(0, options[0] if options else 0))
    return decimal_type(kind.precision - kind.scale + digits + 1, digits)


def _same_number(kind: pa.DataType, _options: tuple[Any, ...]) -> pa.DataType:
    if pt.is_decimal(kind):
        return kind
    return pa.int64() if pt.is_integer(kind) else pa.float64()


def _truncated(kind: pa.DataType, _options: tuple[Any, ...]) -> pa.DataType:
    return pa.timestamp("us") if pt.is_date(kind) else kind


def _not_empty(value: str) -> Complaint:
    return None if value else "must not be empty"


def _at_least_one(value: int) -> Complaint:
    return None if value >= 1 else f"counts from 1, not {value}"


def _position(value: int) -> Complaint:
    return None if value != 0 else "counts from 1, or from -1 at the end, not 0"


def _length(value: int) -> Complaint:
    return None if value >= 0 else f"must not be negative, not {value}"


def _digits(value: int) -> Complaint:
    return None if -18 <= value <= 38 else f"must be between -18 and 38, not {value}"


def _one_code_point(value: str) -> Complaint:
    return None if len(value) == 1 else f"must be one character, not {value!r}"


def _pattern(value: str) -> Complaint:
    problem = complaint(value)
    return f"{value!r} is no regular expression: {problem}" if problem else None


def _group(options: tuple[Any, ...]) -> Complaint:
    try:
        only_group(options[0], options[1])
    except ValueError as error:
        return f"pattern {options[0]!r}: {error}"
    return None


def _unit(value: str) -> Complaint:
    try:
        truncation(value)
    except ValueError as error:
        return str(error)
    return None


def _format(value: str) -> Complaint:
    try:
        format_pieces(value)
    except ValueError as error:
        return str(error)
    return None


_TEXT, _TRUTH, _NUMBER = _gives(pa.string()), _gives(pa.bool_()), _gives(pa.int64())
_DOUBLE, _PART = _gives(pa.float64()), Function("time", _gives(pa.int64()))
_PATTERN = Option("the pattern", str, _pattern)
_TRIMMED = (Option("the characters", str, _not_empty, " ", required=False),)

FUNCTIONS: dict[str, Function] = {
    "lower": Function("text", _TEXT),
    "upper": Function("text", _TEXT),
    "length": Function("text", _NUMBER),
    "substring": Function(
        "text",
        _TEXT,
        (Option("the start", int, _position), Option("the length", int, _length, required=False)),
    ),
    "split_part": Function(
        "text",
        _TEXT,
        (Option("the separator", str, _not_empty), Option("the index", int, _at_least_one)),
    ),
    "like": Function("text", _TRUTH, (Option("the pattern", str),)),
    "regexp_matches": Function("text", _TRUTH, (_PATTERN,)),
    "regexp_extract": Function(
        "text",
        _TEXT,
        (_PATTERN, Option("the group", int, _length, 0, required=False)),
        _group,
    ),
    "count_char": Function("text", _NUMBER, (Option("the character", str, _one_code_point),)),
    "starts_with": Function("text", _TRUTH, (Option("the prefix", str),)),
    "ends_with": Function("text", _TRUTH, (Option("the suffix", str),)),
    "contains": Function("text", _TRUTH, (Option("the part", str),)),
    "replace": Function("text", _TEXT, (Option("the old text", str, _not_empty), Option("the new text", str))),
    "trim": Function("text", _TEXT, _TRIMMED),
    "ltrim": Function("text", _TEXT, _TRIMMED),
    "rtrim": Function("text", _TEXT, _TRIMMED),
    "year": _PART,
    "month": _PART,
    "day": _PART,
    "hour": _PART,
    "minute": _PART,
    "second": _PART,
    "millisecond": _PART,
    "isodow": _PART,
    "dayofyear": _PART,
    "date": Function("time", _gives(pa.date32())),
    "truncate": Function("time", _truncated, (Option("the unit", str, _unit),)),
    "strftime": Function("time", _TEXT, (Option("the format", str, _format),)),
    "epoch_us": _PART,
    "epoch_ms": _PART,
    "abs": Function("number", _same_number),
    "sign": Function("number", _NUMBER),
    "round": Function("number", _rounded, (Option("the digits", int, _digits, default=0, required=False),)),
    "floor": Function("number", _rounded),
    "ceil": Function("number", _rounded),
    "sqrt": Function("number", _DOUBLE),
    "exp": Function("number", _DOUBLE),
    "ln": Function("number", _DOUBLE),
}

VARIADIC = ("concat", "hash", "power", "struct_extract")
"""Functions of several values, which `expression_types` checks one by one."""
