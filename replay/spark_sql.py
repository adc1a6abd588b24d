"""Expressions as Spark SQL with Penstock's meaning, which `replay.operators` put into queries.

A text never raises: where a row has no result it is null, and `row_error_sql` tells these nulls from others. The
session has ANSI mode, UTC as its time zone and case-sensitive names, and reads escapes in literals.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from typing import TypeVar

import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.expressions.casts import never_fails
from penstock.engine.expressions.folding import fold
from penstock.model.coercion import digits_of
from penstock.model.errors import ExpressionError, SchemaError
from penstock.model.expression_trees import place_of, sql_text
from penstock.model.expression_types import resolve
from penstock.model.expressions import Expr
from penstock.model.typed_expressions import TypedExpression
from penstock.replay.spark_casts import NoCounterpartError, cast
from penstock.replay.spark_constants import constant, missing
from penstock.replay.spark_functions import truncated_quotient, write_call
from penstock.replay.spark_types import quoted_name, sql_type

Text = TypeVar("Text", str, str | None)

_LONG = 300
"""From how many characters on a text that is mentioned several times is computed once and given a name."""

_MOST_NAMES = 6
_MOST_LETTERS = 30_000
"""Beyond these Spark's analysis of a text takes longer than our kernels take for the rows; names cost it the most."""

_SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "AND", "or": "OR"}
_TRIED = {"add": "try_add", "sub": "try_subtract", "mul": "try_multiply"}
_PLAIN = {"add": "+", "sub": "-", "mul": "*"}
_STRICT = ("add", "sub", "mul", "neg", "abs", "round", "cast")
_LEAST = "(-9223372036854775807L - 1L)"


class NoSparkTextError(ExpressionError):
    """An expression that Spark SQL cannot compute exactly; Penstock's own kernels can, in `mapInArrow`."""


def to_spark_sql(expression: Expr, schema: pa.Schema, operator: str = "to_spark_sql") -> str:
    """Return the text of an expression (without its alias) over columns of this schema; null where a row has no result.

    Raises:
        NoSparkTextError: Spark has no exact counterpart; the message names ``operator``.
        ExpressionError: the expression does not fit the schema; the message names ``operator``.
    """
    return _with_reasons(expression, operator, lambda: _Writer(schema).write(_typed(expression, schema, operator)))


def row_error_sql(expression: Expr, schema: pa.Schema, operator: str = "row_error_sql") -> str | None:
    """Return a condition, true or false and never null, of the rows for which an expression fails; None if it cannot.

    Raises:
        ExpressionError: as `to_spark_sql`.
    """

    def write() -> str | None:
        writer = _Writer(schema)
        failures = writer.failures(_typed(expression, schema, operator))
        return f"COALESCE({_any(failures)}, FALSE)" if failures else None

    return _with_reasons(expression, operator, write)


def condition_sql(predicate: Expr, schema: pa.Schema, operator: str = "condition_sql") -> str:
    """Return the condition of the rows that a predicate passes: true or false, never null.

    Raises:
        ExpressionError: as `to_spark_sql`.
    """
    return f"COALESCE({to_spark_sql(predicate, schema, operator)}, FALSE)"


def _typed(expression: Expr, schema: pa.Schema, operator: str) -> TypedExpression:
    return fold(resolve(expression, schema, operator))


def _with_reasons(expression: Expr, operator: str, write: Callable[[], Text]) -> Text:
    try:
        text = write()
        if len(text or "") > _MOST_LETTERS:
            raise NoCounterpartError("its text would be too long for Spark to analyse it in good time")
        return text
    except (NoCounterpartError, SchemaError) as error:
        raise NoSparkTextError(
            f"Operator {operator!r} at {place_of(expression.tree)} computes {sql_text(expression.tree)}, which has no "
            f"exact counterpart in Spark SQL: {error}."
        ) from None


class _Writer:
    """Writes steps of one expression; equal objects are written once."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._texts: dict[TypedExpression, str] = {}
        self._names = 0

    def write(self, typed: TypedExpression) -> str:
        """Return the text of a step, in brackets where they matter."""
        if typed not in self._texts:
            self._texts[typed] = self._written(typed)
        return self._texts[typed]

    def failures(self, typed: TypedExpression) -> list[str]:
        """Return the conditions, each true, false or null, under one of which a step fails."""
        if typed.op == "fail":
            return ["TRUE"]
        if typed.op == "case":
            return self._failures_of_case(typed)
        if _columns_of_strict(typed) is not None:
            return list(dict.fromkeys(self._failures_of_strict(typed, frozenset())))
        conditions = [failure for argument in typed.args for failure in self.failures(argument)]
        own = self._own_failure(typed)
        return list(dict.fromkeys([*conditions, own] if own else conditions))

    def share(self, text: str, body: Callable[[str], str]) -> str:
        """Return ``body`` of a text, which names it if it is long: texts must not grow with every level."""
        if len(text) < _LONG:
            return body(text)
        self._names += 1
        if self._names > _MOST_NAMES:
            raise NoCounterpartError("it nests too deep for Spark to analyse it in good time")
        name = quoted_name(f"${self._names}")
        return f"transform(array({text}), {name} -> {body(name)})[0]"

    def _written(self, typed: TypedExpression) -> str:
        if typed.op == "literal":
            return constant(typed.value)
        if typed.op == "column":
            return quoted_name(self._schema.field(typed.value).name)
        if typed.op == "fail":
            return missing(typed.type)
        texts = [self.write(argument) for argument in typed.args]
        if typed.op in ("cast", "try_cast"):
            return cast(texts[0], typed.args[0].type, typed.type, self.share)
        if typed.op in ("add", "sub", "mul", "div", "quotient", "remainder", "neg"):
            return self._arithmetic(typed, texts)
        return self._logical(typed, texts)

    def _logical(self, typed: TypedExpression, texts: list[str]) -> str:
        if typed.op in _SIGNS:
            return f"({texts[0]} {_SIGNS[typed.op]} {texts[1]})"
        if typed.op == "not":
            return f"(NOT {texts[0]})"
        if typed.op == "is_null":
            return f"({texts[0]} IS NULL)"
        if typed.op == "in":
            return f"({texts[0]} IN ({', '.join(map(constant, typed.value))}))"
        if typed.op == "case":
            branches = zip(texts[:-1:2], texts[1:-1:2], strict=True)
            return _case(branches, texts[-1])
        if typed.op == "coalesce":
            return f"COALESCE({', '.join(texts)})"
        return write_call(typed, texts, self.share)

    def _arithmetic(self, typed: TypedExpression, texts: list[str]) -> str:
        if typed.op == "div":
            return f"try_divide({texts[0]}, {texts[1]})"
        if typed.op == "neg":
            return self._negated(typed, texts[0])
        if typed.op == "quotient" and pt.is_floating(typed.type):
            return truncated_quotient(texts, self.share)
        if any(pt.is_decimal(argument.type) for argument in typed.args) and not pt.is_floating(typed.type):
            return self._decimals(typed, [_as_decimal(*pair) for pair in zip(texts, typed.args, strict=True)])
        if typed.op == "quotient":
            return self._quotient(typed.args[1], texts)
        if typed.op == "remainder":
            return f"try_mod({texts[0]}, {texts[1]})"
        if pt.is_floating(typed.type):
            return f"({texts[0]} {_PLAIN[typed.op]} {texts[1]})"
        if pt.is_timestamp(typed.type) and pt.is_duration(typed.args[0].type):
            texts = texts[::-1]
        return f"{_TRIED[typed.op]}({texts[0]}, {texts[1]})"

    def _negated(self, typed: TypedExpression, text: str) -> str:
        if pt.is_integer(typed.type):
            return f"try_subtract(0L, {text})"
        if pt.is_duration(typed.type):
            return f"try_subtract(INTERVAL '0' SECOND, {text})"
        return f"(- {text})"

    def _decimals(self, typed: TypedExpression, texts: list[str]) -> str:
        if typed.op == "quotient":
            return f"({texts[0]} div NULLIF({texts[1]}, 0))"
        if typed.op == "remainder":
            text = f"try_mod({texts[0]}, {texts[1]})"
        else:
            text = f"({texts[0]} {_PLAIN[typed.op]} {texts[1]})"
        return f"CAST({text} AS {sql_type(typed.type)})"

    def _quotient(self, divisor: TypedExpression, texts: list[str]) -> str:
        if divisor.op == "literal" and divisor.value.as_py() not in (0, -1, None):
            return f"({texts[0]} div {texts[1]})"

        def write(x: str, y: str) -> str:
            return f"CASE WHEN {y} = -1L THEN try_subtract(0L, {x}) WHEN {y} <> 0L THEN {x} div {y} END"

        return self.share(texts[0], lambda x: self.share(texts[1], lambda y: write(x, y)))

    def _failures_of_strict(self, typed: TypedExpression, above: frozenset[int]) -> Iterator[str]:
        """One test for all steps over the same columns, which are null with the last of them; ``above`` has had its."""
        columns = _columns_of_strict(typed) or {}
        if columns.keys() != above and _fails_over(typed, columns.keys()):
            present = [f"{self.write(column)} IS NOT NULL" for column in columns.values()]
            yield f"({' AND '.join([*present, f'{self.write(typed)} IS NULL'])})"
        for argument in typed.args:
            yield from self._failures_of_strict(argument, frozenset(columns))

    def _failures_of_case(self, typed: TypedExpression) -> list[str]:
        """A branch fails only for the rows that take it, and no condition but the first can fail after folding."""
        conditions, values = typed.args[:-1:2], [*typed.args[1:-1:2], typed.args[-1]]
        failures = [failure for condition in conditions for failure in self.failures(condition)]
        branches = [self.failures(value) for value in values]
        if any(branches):
            tests = [self.write(condition) for condition in conditions]
            texts = [_any(branch) if branch else "FALSE" for branch in branches]
            failures.append(_case(zip(tests, texts[:-1], strict=True), texts[-1]))
        return list(dict.fromkeys(failures))

    def _own_failure(self, typed: TypedExpression) -> str | None:
        """Return when a step fails whose arguments do not."""
        if typed.op == "quotient" and pt.is_integer(typed.args[0].type) and pt.is_integer(typed.args[1].type):
            divisor = typed.args[1]
            if divisor.op == "literal" and divisor.value.as_py() != -1:
                return None
            return f"({self.write(divisor)} = -1L AND {self.write(typed.args[0])} = {_LEAST})"
        if not _may_fail(typed):
            return None
        present = [f"{self.write(argument)} IS NOT NULL" for argument in typed.args if argument.op != "literal"]
        return f"({' AND '.join([*present, f'{self.write(typed)} IS NULL'])})"


def _may_fail(typed: TypedExpression) -> bool:
    """Return whether a step that is null for values fails."""
    if typed.op in ("add", "sub", "mul", "neg", "abs"):
        return bool(pt.is_integer(typed.type) or pt.is_temporal(typed.type))
    if typed.op == "round":
        return bool(pt.is_integer(typed.type)) and typed.value[0] < 0
    return typed.op == "cast" and not never_fails(typed.args[0].type, typed.type)


def _columns_of_strict(typed: TypedExpression) -> dict[int, TypedExpression] | None:
    """Return the columns of an expression that is null only where one of them is or a step fails; None for others."""
    if typed.op == "column":
        return {typed.value: typed}
    if typed.op == "literal":
        return {} if typed.value.is_valid else None
    if typed.op not in _STRICT or (typed.op == "round" and pt.is_floating(typed.type)):
        return None
    columns: dict[int, TypedExpression] = {}
    for argument in typed.args:
        part = _columns_of_strict(argument)
        if part is None:
            return None
        columns |= part
    return columns


def _fails_over(typed: TypedExpression, columns: Set[int]) -> bool:
    """Return whether a step of a strict expression that is over all these columns may fail."""
    if (_columns_of_strict(typed) or {}).keys() != columns:
        return False
    return _may_fail(typed) or any(_fails_over(argument, columns) for argument in typed.args)


def _as_decimal(text: str, typed: TypedExpression) -> str:
    if pt.is_decimal(typed.type):
        return text
    precision, scale = digits_of(typed.kind)
    return f"CAST({text} AS DECIMAL({precision}, {scale}))"


def _any(conditions: list[str]) -> str:
    return conditions[0] if len(conditions) == 1 else f"({' OR '.join(conditions)})"


def _case(branches: Iterable[tuple[str, str]], default: str) -> str:
    whens = "".join(f" WHEN {condition} THEN {value}" for condition, value in branches)
    return f"CASE{whens} ELSE {default} END"
