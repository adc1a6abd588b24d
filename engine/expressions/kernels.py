"""Kernels by operation of a typed expression, and the operations that can fail for a row.

`expressions.program` builds its steps from it; one entry per operation of `model.typed_expressions` and of
`model.functions`.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.engine.expressions import casts as casts
from penstock.engine.expressions import comparisons as compare
from penstock.engine.expressions import numbers as number
from penstock.engine.expressions import text as text
from penstock.engine.expressions import time as time
from penstock.engine.expressions.values import (
    Encoded,
    Kernel,
    RowError,
    arrow,
    bits,
    booleans,
    fixed,
    numbers,
)
from penstock.model.typed_expressions import TypedExpression
from penstock.state.keys.batch_keys import KeyCodec

Builder = Callable[[TypedExpression], Kernel]

_EXACT = ("add", "sub", "mul", "neg", "abs")


def build(typed: TypedExpression) -> Kernel:
    """Return the kernel of a step; it takes the values of the step's arguments."""
    if typed.op in ("eq", "ne") and over_text(typed):
        return text.equality(typed)
    if pt.is_temporal(typed.type) and typed.op in ("add", "sub", "neg"):
        return time.arithmetic(typed)
    return _BUILDERS[typed.op](typed)


def over_text(typed: TypedExpression) -> bool:
    """Return whether a step takes one text alone and gives null for null, so that it can run per distinct text."""
    subject = typed.args[0] if typed.args else None
    if subject is None or not pt.is_string(subject.type) or subject.op == "literal":
        return False
    if typed.op in ("eq", "ne"):
        return typed.args[1].op == "literal"
    return typed.op in _TEXT_FUNCTIONS or typed.op in ("in", "try_cast")


def is_costly(typed: TypedExpression) -> bool:
    """Return whether a function of text costs so much that finding equal texts first pays."""
    if typed.op == "like":
        inner = typed.value[0].strip("%")
        return "%" in inner or "_" in inner
    return typed.op in ("regexp_extract", "regexp_matches") or (
        typed.op == "try_cast" and pt.is_string(typed.args[0].type) and not pt.is_integer(typed.type)
    )


def missing(typed: TypedExpression) -> Kernel:
    """The mask of missing values; from the distinct values if text is encoded."""
    del typed
    null = arrow("is_null")
    there = arrow("is_valid")

    def kernel(value: pa.Array | Encoded) -> pa.Array:
        if not isinstance(value, Encoded):
            return null(value)
        flags = bits(value.dictionary.map(there).values)
        if value.indices.null_count:
            return pc.invert(pc.fill_null(booleans(flags, None).take(value.indices), False))
        return booleans(~flags[numbers(value.indices)], None)

    return kernel


def may_fail(typed: TypedExpression) -> bool:
    """Return whether some row may have no result: a case must not compute it for rows that take another branch."""
    pending, seen = [typed], set()
    while pending:
        part = pending.pop()
        if _fails(part):
            return True
        seen.add(part)
        pending += [argument for argument in part.args if argument not in seen]
    return False


def _fails(typed: TypedExpression) -> bool:
    whole = pt.is_integer(typed.type) or pt.is_temporal(typed.type)
    if typed.op in _EXACT:
        return bool(whole)
    if typed.op == "cast":
        return not casts.never_fails(typed.args[0].type, typed.type)
    if typed.op == "quotient":
        divisor = typed.args[1]
        return bool(whole) and not (divisor.op == "literal" and divisor.value.as_py() not in (-1, None))
    if typed.op == "round":
        return bool(pt.is_integer(typed.type)) and typed.value[0] < 0
    return typed.op in ("epoch_us", "epoch_ms", "fail")


def _hash(typed: TypedExpression) -> Kernel:
    kinds = [argument.type for argument in typed.args]
    codec = KeyCodec([pa.bool_() if pt.is_null(kind) else kind for kind in kinds])

    def kernel(*values: pa.Array | pa.Scalar) -> pa.Array:
        rows = max(len(value) for value in values if isinstance(value, pa.Array))
        columns = []
        for value, kind in zip(values, codec.types, strict=True):
            column = pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value
            columns.append(column if column.type == kind else column.cast(kind))
        return fixed(pa.int64(), codec.hash(columns).view(np.int64), None)

    return kernel


def _field(typed: TypedExpression) -> Kernel:
    take, kind = arrow("struct_field", pc.StructFieldOptions([typed.value])), typed.type

    def kernel(struct: pa.Array) -> pa.Array:
        field = take(struct)
        return field if field.type == kind else field.cast(kind)

    return kernel


def _failure(typed: TypedExpression) -> Kernel:
    """The failure of every row, for constants that do not combine."""

    def kernel() -> pa.Array:
        raise RowError(typed.value)

    return kernel


def _plain(name: str) -> Builder:
    return lambda _typed: arrow(name)


_TEXT_FUNCTIONS: dict[str, Builder] = {
    "lower": lambda _typed: text.by_alphabet("lower"),
    "upper": lambda _typed: text.by_alphabet("upper"),
    "length": text.length,
    "substring": text.substring,
    "split_part": text.split_part,
    "like": text.like,
    "regexp_matches": lambda typed: text.matches(typed.value[0]),
    "regexp_extract": text.regexp_extract,
    "count_char": text.count_char,
    **dict.fromkeys(("starts_with", "ends_with"), text.end_matches),
    "contains": lambda typed: text.contains(typed.value[0]),
    "replace": text.replace,
    **dict.fromkeys(("trim", "ltrim", "rtrim"), text.trim),
}
_TIME_PARTS = (
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "isodow",
    "dayofyear",
)
_BUILDERS: dict[str, Builder] = {
    **_TEXT_FUNCTIONS,
    **dict.fromkeys(_TIME_PARTS, time.part),
    **dict.fromkeys(("add", "sub", "mul", "neg", "abs"), number.arithmetic),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), compare.comparison),
    **dict.fromkeys(("round", "floor", "ceil"), number.rounding),
    **dict.fromkeys(("sqrt", "exp", "ln", "power"), lambda typed: arrow(typed.op)),
    "div": number.division,
    "quotient": number.quotient,
    "remainder": number.remainder,
    "sign": number.sign,
    "in": compare.membership,
    "concat": text.concat,
    "date": time.date,
    "truncate": time.truncate,
    "strftime": time.strftime,
    "epoch_us": time.epoch,
    "epoch_ms": time.epoch,
    "cast": casts.cast,
    "try_cast": casts.try_cast,
    "and": _plain("and_kleene"),
    "or": _plain("or_kleene"),
    "not": _plain("invert"),
    "is_null": missing,
    "struct_extract": _field,
    "coalesce": _plain("coalesce"),
    "hash": _hash,
    "fail": _failure,
}
