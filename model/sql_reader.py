"""SQL text as expressions: ``sql("price * 0.908")`` reads DuckDB's dialect into the tree that `expressions` builds.

A number with a point is a DECIMAL here, as in SQL; ``p.name`` is a field of struct ``p``. The front door exports it.
"""

from collections.abc import Callable
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.model.errors import ExpressionError
from penstock.model.expression_trees import check_levels, sql_text, too_deep, unwrapped
from penstock.model.expression_types import HANDLERS
from penstock.model.expressions import Expr
from penstock.model.functions import FUNCTIONS, VARIADIC
from penstock.model.source_location import user_location
from penstock.model.type_names import from_sql_type, to_sql_type


def sql(text: str) -> Expr:
    """Read one SQL expression.

    Raises:
        ExpressionError: it does not parse, or nests too deep, or uses something that expressions do not have.
    """
    place = user_location()
    try:
        tree = sqlglot.parse_one(text, dialect="duckdb")
    except SqlglotError as error:
        raise ExpressionError(f"The SQL expression {text!r} at {place} does not parse{_where(error)}.") from None
    except RecursionError:
        raise too_deep(f"The SQL expression at {place} nests too deep to be read") from None
    check_levels(tree, place)
    try:
        return Expr(_read(tree), place)
    except _ForeignError as error:
        raise ExpressionError(f"The SQL expression {text!r} at {place} {error}.") from None


def _where(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    return f" at its character {details[0]['col']}" if details and details[0].get("col") else ""


class _ForeignError(Exception):
    """SQL that has no counterpart in expressions; the text continues the sentence."""


_KEPT = (*HANDLERS, exp.Alias, exp.Null, exp.Boolean, exp.Literal, exp.Interval, exp.Var, exp.Identifier)
_CALLS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Lower: ("lower", "this"),
    exp.Upper: ("upper", "this"),
    exp.Length: ("length", "this"),
    exp.Substring: ("substring", "this", "start", "length"),
    exp.SplitPart: ("split_part", "this", "delimiter", "part_index"),
    exp.DPipe: ("concat", "this", "expression"),
    exp.Like: ("like", "this", "expression"),
    exp.RegexpLike: ("regexp_matches", "this", "expression"),
    exp.RegexpExtract: ("regexp_extract", "this", "expression", "group"),
    exp.StartsWith: ("starts_with", "this", "expression"),
    exp.EndsWith: ("ends_with", "this", "expression"),
    exp.Contains: ("contains", "this", "expression"),
    exp.Replace: ("replace", "this", "expression", "replacement"),
    exp.Year: ("year", "this"),
    exp.Month: ("month", "this"),
    exp.Day: ("day", "this"),
    exp.DayOfMonth: ("day", "this"),
    exp.Hour: ("hour", "this"),
    exp.Minute: ("minute", "this"),
    exp.Second: ("second", "this"),
    exp.DayOfWeekIso: ("isodow", "this"),
    exp.DayOfYear: ("dayofyear", "this"),
    exp.Date: ("date", "this"),
    exp.TimeToStr: ("strftime", "this", "format"),
    exp.Abs: ("abs", "this"),
    exp.Sign: ("sign", "this"),
    exp.Round: ("round", "this", "decimals"),
    exp.Floor: ("floor", "this"),
    exp.Ceil: ("ceil", "this"),
    exp.Sqrt: ("sqrt", "this"),
    exp.Exp: ("exp", "this"),
    exp.Ln: ("ln", "this"),
    exp.Pow: ("power", "this", "expression"),
    exp.StructExtract: ("struct_extract", "this", "expression"),
}
_PARTS = ("year", "month", "day", "hour", "minute", "second", "isodow")


def _read(node: exp.Expr) -> exp.Expr:
    if node.args.get("negate"):
        positive = node.copy()
        positive.set("negate", None)
        return exp.Not(this=_read(positive))
    kind = type(node)
    if kind in _CALLS:
        name, *arguments = _CALLS[kind]
        return _call(name, *[node.args.get(argument) for argument in arguments])
    if kind in _SPECIAL:
        return _SPECIAL[kind](node)
    if kind in _KEPT and not (kind is exp.In and node.args.get("query")):
        return _rebuilt(node)
    raise _ForeignError(f"uses {sql_text(node)}, which is not part of expressions")


def _rebuilt(node: exp.Expr) -> exp.Expr:
    """Copy a node with its parts read."""
    return type(node)(**{key: _part(part) for key, part in node.args.items() if part is not None})


def _part(part: Any) -> Any:
    if isinstance(part, list):
        return [_part(item) for item in part]
    return _read(part) if isinstance(part, exp.Expr) else part


def _call(name: str, *arguments: Any) -> exp.Expr:
    operands = [_read(argument) for argument in arguments if argument is not None]
    return exp.Anonymous(this=name, expressions=operands)


def _column(node: exp.Expr) -> exp.Expr:
    """Read ``a.b.c`` as field c of field b of column a."""
    names = [part.name for part in node.parts] if isinstance(node, exp.Column) else []
    tree: exp.Expr = exp.Column(this=exp.to_identifier(names[0]))
    for name in names[1:]:
        tree = exp.Anonymous(this="struct_extract", expressions=[tree, exp.Literal.string(name)])
    return tree


def _dot(node: exp.Expr) -> exp.Expr:
    field = exp.Literal.string(node.expression.name)
    return exp.Anonymous(this="struct_extract", expressions=[_read(node.this), field])


def _bracket(node: exp.Expr) -> exp.Expr:
    keys = node.expressions
    if len(keys) != 1 or not keys[0].is_string:
        raise _ForeignError(f"uses {sql_text(node)}, and only fields of structs are read with []")
    return _call("struct_extract", node.this, exp.Literal.string(keys[0].name))


def _cast(node: exp.Expr) -> exp.Expr:
    kind = exp.TryCast if isinstance(node, exp.TryCast) else exp.Cast
    arrow = from_sql_type(node.args["to"])
    if arrow is None:
        raise _ForeignError(f"casts to {node.args['to'].sql(dialect='duckdb')}, which is no type of a column")
    return kind(this=_read(node.this), to=to_sql_type(arrow))


def _distinct(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.NullSafeEQ(this=_read(node.this), expression=_read(node.expression)))


def _paren(node: exp.Expr) -> exp.Expr:
    """Reduce nested parentheses to one pair, which means the same and keeps the tree shallow."""
    return exp.Paren(this=_read(unwrapped(node)))


def _concat(node: exp.Expr) -> exp.Expr:
    return _call("concat", *node.expressions)


def _trim(node: exp.Expr) -> exp.Expr:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
    return _call(name, node.this, node.args.get("expression"))


def _extract(node: exp.Expr) -> exp.Expr:
    part = str(node.this.name).lower()
    if part not in _PARTS:
        raise _ForeignError(f"extracts {part}, and there are {', '.join(_PARTS)}")
    return _call(part, node.expression)


def _truncate(node: exp.Expr) -> exp.Expr:
    unit = exp.Literal.string(node.args["unit"].name.lower())
    return _call("truncate", node.this, unit)


def _epoch_ms(node: exp.Expr) -> exp.Expr:
    if node.args.get("scale") is None or node.args["scale"].name != "3":
        raise _ForeignError(f"uses {sql_text(node)}, which is not part of expressions: cast a number to a timestamp")
    return _call("epoch_ms", node.this)


def _anonymous(node: exp.Expr) -> exp.Expr:
    name = str(node.name).lower()
    if name not in FUNCTIONS and name not in VARIADIC:
        raise _ForeignError(f"calls {name}, which is not a function of expressions")
    return _call(name, *node.expressions)


_SPECIAL: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.NullSafeNEQ: _distinct,
    exp.Concat: _concat,
    exp.Paren: _paren,
    exp.Trim: _trim,
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate,
    exp.UnixToTime: _epoch_ms,
    exp.Anonymous: _anonymous,
}
