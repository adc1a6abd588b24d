"""Types of expressions, checked when the pipeline is built.

`resolve` turns a tree and a schema into `TypedExpression` steps. Whatever does not fit is one sentence with operator,
column, the user's file and line, and a remedy; the DSL raises it where the user wrote the line, the engine compiles the
rest.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from penstock.model import literals
from penstock.model.call_types import resolve_call
from penstock.model.casts import cast_hint, is_castable
from penstock.model.coercion import CombinationError, arithmetic_type, common_type, is_number, is_time
from penstock.model.expression_trees import sql_text
from penstock.model.expressions import Expr
from penstock.model.schema import normal_type
from penstock.model.type_names import from_sql_type
from penstock.model.typed_expressions import (
    Complaints,
    TypedExpression,
    convert,
    convert_constant,
    describe,
    literal,
    null,
)


def infer_type(expression: Expr, schema: pa.Schema, operator: str) -> pa.DataType:
    """Return the type of an expression's values over rows of this schema.

    Raises:
        ExpressionError: an unknown column or types that do not fit; the message names ``operator``.
    """
    return resolve(expression, schema, operator).type


def resolve(expression: Expr, schema: pa.Schema, operator: str) -> TypedExpression:
    """Type an expression over rows of this schema.

    Raises:
        ExpressionError: an unknown column or types that do not fit; the message names ``operator``.
    """
    return Resolver(schema, operator).resolve(expression.tree)


_ARITHMETIC: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Add: ("add", "add {1} to {0}"),
    exp.Sub: ("sub", "subtract {1} from {0}"),
    exp.Mul: ("mul", "multiply {} by {}"),
    exp.Div: ("div", "divide {} by {}"),
    exp.IntDiv: ("quotient", "divide {} by {}"),
    exp.Mod: ("remainder", "take the remainder of {} by {}"),
}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_COMPARE = "compare {} with {}"


class Resolver(Complaints):
    """Types trees over one schema for one operator."""

    def __init__(self, schema: pa.Schema, operator: str) -> None:
        """Resolve columns by name in ``schema``; messages say it happened in ``operator``."""
        super().__init__(schema, operator)
        self.types: dict[int, pa.DataType] = {}
        """The type of every resolved node by its id, valid as long as the tree lives."""

    def resolve(self, node: exp.Expr) -> TypedExpression:
        """Type one node and all below it."""
        typed = self._resolve(node)
        self.types[id(node)] = typed.type
        return typed

    def _resolve(self, node: exp.Expr) -> TypedExpression:
        if isinstance(node, exp.Paren | exp.Alias):
            return self.resolve(node.this)
        try:
            constant = literals.to_scalar(node)
        except ValueError as error:
            self.fail(node, f"has an impossible constant: {error}")
        if constant is not None:
            return literal(constant, node)
        handler = HANDLERS.get(type(node))
        if handler is None:
            self.fail(node, f"uses {sql_text(node)}, which is not part of expressions")
        return handler(self, node)

    def _column(self, node: exp.Expr) -> TypedExpression:
        index = self.schema.get_field_index(node.name)
        if index < 0:
            self.unknown(node, "column", node.name, self.schema.names)
        return TypedExpression("column", normal_type(self.schema.field(index).type), (), node, index)

    def _arithmetic(self, node: exp.Expr) -> TypedExpression:
        op, sentence = _ARITHMETIC[type(node)]
        left, right = self.resolve(node.this), self.resolve(node.expression)
        left, right = _adapted(left, right), _adapted(right, left)
        try:
            kind = arithmetic_type(op, left.kind, right.kind)
        except CombinationError as error:
            self.mismatch(node, sentence, left, right, str(error) or _remedy(op, left, right))
        if pt.is_null(left.type) or pt.is_null(right.type):
            return null(kind, node)
        if is_time(kind):
            left, right = _in_unit(left, kind, op), _in_unit(right, kind, op)
        elif pt.is_floating(kind) or not (pt.is_decimal(left.type) or pt.is_decimal(right.type)):
            left, right = convert(left, kind), convert(right, kind)
        return TypedExpression(op, kind, (left, right), node)

    def _comparison(self, node: exp.Expr) -> TypedExpression:
        op = _COMPARISONS[type(node)]
        return self.compare(op, node, self.resolve(node.this), self.resolve(node.expression))

    def compare(self, op: str, node: exp.Expr, left: TypedExpression, right: TypedExpression) -> TypedExpression:
        """Compare two values after bringing them to one type; integers of any width stay as they are."""
        if pt.is_nested(left.type) or pt.is_nested(right.type):
            self.mismatch(node, _COMPARE, left, right, "compare their fields")
        if not (pt.is_integer(left.type) and pt.is_integer(right.type)):
            one, other = _adapted(left, right), _adapted(right, left)
            try:
                kind = common_type(one.kind, other.kind)
            except CombinationError as error:
                self.mismatch(node, _COMPARE, left, right, str(error) or "cast one of them")
            if kind == pa.float32():
                kind = pa.float64()
            left, right = convert(one, kind), convert(other, kind)
        return TypedExpression(op, pa.bool_(), (left, right), node)

    def _distinct(self, node: exp.Expr) -> TypedExpression:
        """(a is null and b is null) or coalesce(a = b, false)."""
        left, right = self.resolve(node.this), self.resolve(node.expression)
        empty = tuple(TypedExpression("is_null", pa.bool_(), (side,), node) for side in (left, right))
        same = self.compare("eq", node, left, right)
        is_equal = TypedExpression("coalesce", pa.bool_(), (same, literal(pa.scalar(False), node)), node)
        return TypedExpression("or", pa.bool_(), (TypedExpression("and", pa.bool_(), empty, node), is_equal), node)

    def _logic(self, node: exp.Expr) -> TypedExpression:
        op = {exp.And: "and", exp.Or: "or", exp.Not: "not"}[cast(Any, type(node))]
        nodes = [node.this] if op == "not" else [node.this, node.expression]
        return TypedExpression(op, pa.bool_(), tuple(self.condition(part) for part in nodes), node)

    def condition(self, node: exp.Expr) -> TypedExpression:
        """Type a node that must be true or false."""
        typed = self.resolve(node)
        if not (pt.is_boolean(typed.type) or pt.is_null(typed.type)):
            self.fail(node, f"needs a condition but has {describe(typed)}: compare it with something")
        return convert(typed, pa.bool_())

    def _is(self, node: exp.Expr) -> TypedExpression:
        if isinstance(node.expression, exp.Null):
            return TypedExpression("is_null", pa.bool_(), (self.resolve(node.this),), node)
        return self._distinct(node)

    def _between(self, node: exp.Expr) -> TypedExpression:
        subject = self.resolve(node.this)
        low, high = self.resolve(node.args["low"]), self.resolve(node.args["high"])
        bounds = (self.compare("ge", node, subject, low), self.compare("le", node, subject, high))
        return TypedExpression("and", pa.bool_(), bounds, node)

    def _in(self, node: exp.Expr) -> TypedExpression:
        """One step for constants of one type; else, and for floating point with its NaN, comparisons."""
        subject = self.resolve(node.this)
        parts = [self.compare("eq", node, subject, self.resolve(item)) for item in node.expressions]
        if not parts:
            return literal(pa.scalar(False), node)
        pairs = {(part.args[0].type, part.args[1].type) for part in parts}
        constants = all(part.args[1].op == "literal" for part in parts)
        if constants and len(parts) > 1 and len(pairs) == 1 and not pt.is_floating(parts[0].args[0].type):
            values = tuple(part.args[1].value for part in parts)
            return TypedExpression("in", pa.bool_(), (parts[0].args[0],), node, values)
        typed = parts[0]
        for part in parts[1:]:
            typed = TypedExpression("or", pa.bool_(), (typed, part), node)
        return typed

    def _case(self, node: exp.Expr) -> TypedExpression:
        branches = node.args.get("ifs") or [node]
        subject = self.resolve(node.this) if isinstance(node, exp.Case) and node.this else None
        conditions = []
        for branch in branches:
            if subject is None:
                conditions.append(self.condition(branch.this))
            else:
                conditions.append(self.compare("eq", branch, subject, self.resolve(branch.this)))
        values = [self.resolve(branch.args["true"]) for branch in branches]
        default = node.args.get("default") or node.args.get("false")
        values.append(null(pa.null(), node) if default is None else self.resolve(default))
        values = self._unify(node, "give both {} and {} in one case", values)
        pairs = zip(conditions, values[:-1], strict=True)
        arguments = tuple(part for pair in pairs for part in pair)
        return TypedExpression("case", values[-1].type, (*arguments, values[-1]), node)

    def _coalesce(self, node: exp.Expr) -> TypedExpression:
        values = [self.resolve(part) for part in (node.this, *node.expressions)]
        values = self._unify(node, "fill {} with {}", values)
        return TypedExpression("coalesce", values[0].type, tuple(values), node)

    def _nullif(self, node: exp.Expr) -> TypedExpression:
        value = self.resolve(node.this)
        equal = self.compare("eq", node, value, self.resolve(node.expression))
        return TypedExpression("case", value.type, (equal, null(value.type, node), value), node)

    def _unify(self, node: exp.Expr, sentence: str, values: Sequence[TypedExpression]) -> list[TypedExpression]:
        """Bring values to one type; constants come last, because they adapt to the others."""
        ordered = sorted(values, key=lambda value: value.op == "literal")
        merged = ordered[0]
        for value in ordered[1:]:
            try:
                kind = common_type(merged.kind, value.kind)
            except CombinationError as error:
                self.mismatch(node, sentence, merged, value, str(error) or "cast one of them")
            if kind != merged.type:
                merged = TypedExpression("merged", kind, (), merged.node)
        return [convert(value, merged.type) for value in values]

    def _negation(self, node: exp.Expr) -> TypedExpression:
        value = self.resolve(node.this)
        if not (is_number(value.type) or pt.is_null(value.type) or pt.is_duration(value.type)):
            self.fail(node, f"cannot negate {describe(value)}: it is no number")
        if pt.is_integer(value.type):
            value = convert(value, pa.int64())
        elif pt.is_floating(value.type):
            value = convert(value, pa.float64())
        return TypedExpression("neg", value.type, (value,), node)

    def _cast(self, node: exp.Expr) -> TypedExpression:
        value = self.resolve(node.this)
        kind = from_sql_type(node.args["to"])
        if kind is None:
            self.fail(node, f"casts to {node.args['to'].sql()}, which is no type of a column")
        if not is_castable(value.type, kind):
            self.fail(node, f"cannot cast {describe(value)} to {kind}{cast_hint(value.type, kind)}")
        if value.type == kind:
            return value
        return TypedExpression("try_cast" if isinstance(node, exp.TryCast) else "cast", kind, (value,), node)

    def _call(self, node: exp.Expr) -> TypedExpression:
        return resolve_call(self, node, [self.resolve(part) for part in node.expressions])


def _adapted(typed: TypedExpression, other: TypedExpression) -> TypedExpression:
    """A constant time, or text that is compared with one, takes the unit of the other side if that is exact."""
    kind = other.type
    if typed.op != "literal" or not is_time(kind):
        return typed
    if pt.is_duration(typed.type):
        kind = pa.duration(kind.unit) if pt.is_timestamp(kind) or pt.is_duration(kind) else typed.type
    elif pt.is_duration(kind):
        return typed
    value = convert_constant(typed.value, kind) if typed.type != pa.null() else None
    if value is None and pt.is_string(typed.type) and pt.is_timestamp(kind):
        value = convert_constant(typed.value, pa.timestamp("us"))
    return typed if value is None else literal(value, typed.node)


def _in_unit(side: TypedExpression, kind: pa.DataType, op: str) -> TypedExpression:
    """Bring one side of time arithmetic to the unit of its result."""
    if pt.is_duration(side.type):
        return convert(side, pa.duration(kind.unit))
    if pt.is_duration(kind) or op == "sub":
        return convert(side, pa.timestamp(kind.unit))
    return convert(side, kind)


def _remedy(op: str, left: TypedExpression, right: TypedExpression) -> str:
    if op == "add" and pt.is_string(left.type) and pt.is_string(right.type):
        return "join texts with .str.concat(...)"
    if is_time(left.type) or is_time(right.type):
        return "give the interval as a datetime.timedelta"
    return "cast text to a number, or compare truth values first"


HANDLERS: dict[type[exp.Expr], Callable[[Resolver, exp.Expr], TypedExpression]] = {
    exp.Column: Resolver._column,
    **dict.fromkeys(_ARITHMETIC, Resolver._arithmetic),
    **dict.fromkeys(_COMPARISONS, Resolver._comparison),
    exp.NullSafeEQ: Resolver._distinct,
    exp.And: Resolver._logic,
    exp.Or: Resolver._logic,
    exp.Not: Resolver._logic,
    exp.Is: Resolver._is,
    exp.Between: Resolver._between,
    exp.In: Resolver._in,
    exp.Case: Resolver._case,
    exp.If: Resolver._case,
    exp.Coalesce: Resolver._coalesce,
    exp.Nullif: Resolver._nullif,
    exp.Neg: Resolver._negation,
    exp.Cast: Resolver._cast,
    exp.TryCast: Resolver._cast,
    exp.Anonymous: Resolver._call,
}
