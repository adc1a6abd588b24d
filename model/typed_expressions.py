"""Typed expressions: steps with types, in which every conversion is explicit.

`expression_types` builds them, the engine compiles them.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from penstock.model.coercion import OperandType
from penstock.model.errors import ExpressionError
from penstock.model.expression_trees import place_of, sql_text, unwrapped


@dataclass(frozen=True, slots=True, eq=False)
class TypedExpression:
    """One step: an operation on typed arguments.

    ``op`` is column (value: its index in the schema), literal (value: an Arrow scalar), case (arguments: condition,
    value, ..., default), an operator (add, eq, and, is_null, in, cast, ...) or a name of `functions.FUNCTIONS`
    (value: its options). ``node`` is the part of the user's tree it came from.
    """

    op: str
    type: pa.DataType
    args: tuple["TypedExpression", ...]
    node: exp.Expr = field(repr=False)
    value: Any = None

    @property
    def kind(self) -> OperandType:
        """The type, with the constant if it is one."""
        return OperandType(self.type, self.value if self.op == "literal" else None)


class Complaints:
    """Raises the errors of one operator over one schema."""

    def __init__(self, schema: pa.Schema, operator: str) -> None:
        """Keep the schema and the operator's name, which messages mention."""
        self.schema = schema
        self.operator = operator

    def fail(self, node: exp.Expr, reason: str) -> NoReturn:
        """Raise the sentence "Operator ... at file:line <reason>."."""
        raise ExpressionError(f"Operator {self.operator!r} at {place_of(node)} {reason}.")

    def unknown(self, node: exp.Expr, what: str, name: str, known: Sequence[str]) -> NoReturn:
        """Raise a sentence about a name that is not among the known ones, with close matches."""
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
        start = f"Operator {self.operator!r} at {place_of(node)} uses the unknown {what} {name!r}: "
        if close:
            raise ExpressionError(f"{start}did you mean {' or '.join(map(repr, close))}?")
        raise ExpressionError(f"{start}there {'are ' + ', '.join(known) if known else 'is none'}.")

    def mismatch(
        self, node: exp.Expr, sentence: str, one: TypedExpression, other: TypedExpression, remedy: str
    ) -> NoReturn:
        """Raise the sentence "... cannot <sentence>: <remedy>." about two values."""
        self.fail(node, f"cannot {sentence.format(describe(one), describe(other))}: {remedy}")


def describe(typed: TypedExpression) -> str:
    """Return a value as messages name it: its type, then its column, its value or its text."""
    node = unwrapped(typed.node, keep_alias=False)
    if isinstance(node, exp.Column):
        return f"{typed.type} {node.name!r}"
    return f"{typed.type} {sql_text(node)}"


def literal(value: pa.Scalar, node: exp.Expr) -> TypedExpression:
    """Return a constant."""
    return TypedExpression("literal", value.type, (), node, value)


def null(kind: pa.DataType, node: exp.Expr) -> TypedExpression:
    """Return the missing value of a type."""
    return literal(pa.scalar(None, kind), node)


def convert(typed: TypedExpression, kind: pa.DataType) -> TypedExpression:
    """Return the value in another type; constants are converted at once where that loses nothing."""
    if typed.type == kind:
        return typed
    if typed.op == "literal":
        value = convert_constant(typed.value, kind)
        if value is not None:
            return literal(value, typed.node)
    if pt.is_null(typed.type):
        return null(kind, typed.node)
    return TypedExpression("cast", kind, (typed,), typed.node)


def convert_constant(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """Return a constant in another type; None if it does not fit exactly (decimals to floating point are rounded)."""
    if not value.is_valid:
        return pa.scalar(None, kind)
    try:
        if pt.is_floating(kind) and not pt.is_string(value.type):
            return pa.scalar(float(value.as_py()), kind)
        if pt.is_decimal(kind) and (pt.is_integer(value.type) or pt.is_decimal(value.type)):
            return pa.scalar(Decimal(value.as_py()), kind)
        if pt.is_integer(kind) and pt.is_integer(value.type):
            return pa.scalar(value.as_py(), kind)
        if pt.is_temporal(kind) and (pt.is_temporal(value.type) or pt.is_string(value.type)):
            return _convert_time(value, kind)
    except (pa.ArrowInvalid, OverflowError):
        return None
    return None


def _convert_time(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    """Convert a time; a zone changes how an instant reads, not the instant, so it can be added or removed."""
    if pt.is_timestamp(kind):
        if pt.is_timestamp(value.type):
            value = value.cast(pa.int64()).cast(pa.timestamp(value.type.unit))
        return value.cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)
    return value.cast(kind)
