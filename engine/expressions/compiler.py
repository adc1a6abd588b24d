"""Expressions over record batches: typed once, compiled once into steps over Arrow kernels.

Operators compile their predicates and projections here and call the result batch by batch; `evaluate_isolating` finds
the rows of a batch that have no result, so that they alone become dead letters (docs/design/expressions.md 3).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.expressions.program import Program
from penstock.engine.expressions.text_encoder import DictionaryReader
from penstock.model.errors import BadRecordError, ExpressionError, NumericOverflowError
from penstock.model.expression_types import infer_type, resolve
from penstock.model.expressions import Expr, column_name
from penstock.model.schema import normal_type
from penstock.model.typed_expressions import TypedExpression, convert

__all__ = [
    "Compiled",
    "CompiledProjection",
    "Isolated",
    "compile_expression",
    "compile_predicate",
    "compile_projection",
    "evaluate_isolating",
    "infer_type",
]

Result = TypeVar("Result")

ROW_ERRORS = (BadRecordError, NumericOverflowError)


class Compiled:
    """One expression: called with a batch, returns an array of its rows' values, always of ``type``.

    The batch has at least the columns of the schema it was compiled for, in their places; text may come with
    dictionaries.

    Raises:
        NumericOverflowError: a number left the range of its type in some row.
        BadRecordError: some row has no result for another reason.
    """

    def __init__(self, typed: TypedExpression, operator: str) -> None:
        self.type: pa.DataType = typed.type
        self._program = _Bound([typed], operator, None)

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values of the batch's rows."""
        return self._program(batch)[0]


class CompiledProjection:
    """Several expressions that share what they have in common: called with a batch, returns one of ``schema``.

    Raises as `Compiled` does. With a condition, only the rows for which it is true are there.
    """

    def __init__(
        self, schema: pa.Schema, outputs: Sequence[TypedExpression], operator: str, where: TypedExpression | None
    ) -> None:
        self.schema = schema
        self._program = _Bound(outputs, operator, where)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the batch's rows, of those that pass if there is a condition."""
        return pa.RecordBatch.from_arrays(self._program(batch), schema=self.schema)


@dataclass(frozen=True, slots=True)
class Isolated(Generic[Result]):
    """The results of a function for the rows it could be called with.

    ``good`` are the indices of these rows (int64, ascending), ``result`` is the function's result over them (None if
    every row failed), ``errors`` are (index, text) of all others, ascending.
    """

    result: Result | None
    good: pa.Array
    errors: list[tuple[int, str]]


def compile_expression(expression: Expr, schema: pa.Schema, operator: str) -> Compiled:
    """Compile one expression for batches of this schema.

    Raises:
        ExpressionError: an unknown column or types that do not fit; the message names ``operator``.
    """
    return Compiled(resolve(expression, schema, operator), operator)


def compile_predicate(
    expression: Expr, schema: pa.Schema, operator: str
) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Compile a condition: true, false or null for every row.

    Raises:
        ExpressionError: as `compile_expression`, or the expression is no condition.
    """
    return Compiled(_condition(expression, schema, operator), operator)


def compile_projection(
    columns: Sequence[tuple[str, Expr]],
    schema: pa.Schema,
    operator: str,
    where: Expr | None = None,
) -> CompiledProjection:
    """Compile named expressions, and the condition that rows must fulfil, into one program.

    Equal subexpressions, also of the condition, are computed once. A column that is passed on keeps its field.

    Raises:
        ExpressionError: as `compile_expression` and `compile_predicate`.
    """
    outputs = [resolve(expression, schema, operator) for _, expression in columns]
    fields = []
    for (name, expression), typed in zip(columns, outputs, strict=True):
        field = pa.field(name, typed.type)
        if column_name(expression) is not None:
            source = schema.field(typed.value)
            field = source.with_name(name).with_type(normal_type(source.type))
        fields.append(field)
    condition = None if where is None else _condition(where, schema, operator)
    return CompiledProjection(pa.schema(fields), outputs, operator, condition)


def evaluate_isolating(function: Callable[[pa.RecordBatch], Result], batch: pa.RecordBatch) -> Isolated[Result]:
    """Call a function with a batch; if rows fail, find them by halving and call it with the others.

    A failure is a `BadRecordError` or `NumericOverflowError`; any other exception is raised as it is. A bad row costs
    about log2(rows) further calls.
    """
    rows = batch.num_rows
    try:
        return Isolated(function(batch), pa.array(np.arange(rows)), [])
    except ROW_ERRORS as error:
        if not rows:
            raise
        errors = [(0, str(error))] if rows == 1 else _failures(function, batch, 0)
    bad = np.zeros(rows, np.bool_)
    bad[[index for index, _ in errors]] = True
    good = pa.array(np.flatnonzero(~bad))
    result = function(batch.take(good)) if len(good) else None
    return Isolated(result, good, errors)


class _Bound:
    """A program and the readers of the columns it needs."""

    def __init__(self, outputs: Sequence[TypedExpression], operator: str, where: TypedExpression | None) -> None:
        self._program = Program(outputs, operator, where)
        self._readers = [(index, DictionaryReader().read) for index in self._program.columns]

    def __call__(self, batch: pa.RecordBatch) -> list[pa.Array]:
        columns = [read(batch.column(index)) for index, read in self._readers]
        return self._program.run(columns, batch.num_rows)


def _condition(expression: Expr, schema: pa.Schema, operator: str) -> TypedExpression:
    typed = resolve(expression, schema, operator)
    if not (pt.is_boolean(typed.type) or pt.is_null(typed.type)):
        raise ExpressionError(
            f"Operator {operator!r} at {expression.place} needs a condition, which is true or false, but "
            f"{expression!r} is {typed.type}."
        )
    return convert(typed, pa.bool_())


def _failures(function: Callable[[pa.RecordBatch], Result], batch: pa.RecordBatch, first: int) -> list[tuple[int, str]]:
    """Return the failing rows of a batch of at least two rows that starts at row ``first``."""
    middle = batch.num_rows // 2
    errors = []
    for start, part in ((0, batch.slice(0, middle)), (middle, batch.slice(middle))):
        try:
            function(part)
        except ROW_ERRORS as error:
            if part.num_rows == 1:
                errors.append((first + start, str(error)))
            else:
                errors += _failures(function, part, first + start)
    return errors
