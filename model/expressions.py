"""Expressions: ``col("price") * 2`` as an immutable thin face on a sqlglot tree (docs/design/expressions.md 1).

Users build them, the job graph carries them, `expression_types` checks them, the engine compiles them. A Python
float is DOUBLE, a `decimal.Decimal` is DECIMAL; text is a value, except where a function takes column names.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Union

from sqlglot import exp as ast

from penstock.model import name_hints
from penstock.model.errors import ExpressionError
from penstock.model.expression_methods import StructMethods, TextMethods, TimeMethods
from penstock.model.expression_trees import PLACE, check_levels, place_of, sql_text, structure, unwrapped
from penstock.model.literals import Literal, to_node
from penstock.model.name_hints import NameHints
from penstock.model.source_location import user_location
from penstock.model.type_names import DataTypeLike, to_arrow, to_sql_type

Operand = Union["Expr", Literal]
"""An operand of an operator or a function: an expression or a constant."""

_COMPOSED = (ast.Binary, ast.Unary, ast.Between, ast.In, ast.Case)


def _operator(kind: type[ast.Expr], swap: bool = False) -> Callable[["Expr", Operand], "Expr"]:
    """Return the method of a binary operator; ``swap`` when Python calls it on the right operand."""

    def method(self: "Expr", other: Operand) -> "Expr":
        if other is None:
            raise ExpressionError(
                f"The expression {self!r} at {user_location()} is combined with None, which is always null: "
                "use .is_null() or .is_not_null()."
            )
        left, right = operand(self), operand(other)
        return Expr(kind(this=right, expression=left) if swap else kind(this=left, expression=right))

    return method


class Expr(NameHints):
    """A value computed per row. Operators and methods return new expressions; ``==`` builds a comparison.

    ``//`` and ``%`` truncate toward zero, division by zero is null, integer overflow is an error of the row.
    """

    __slots__ = ("_tree",)
    _hints = name_hints.EXPRESSION
    _noun = "an expression"

    def __init__(self, tree: ast.Expr, place: str | None = None) -> None:
        """Take over a tree that nobody else changes, written by the user at ``place``; without it, just now.

        Raises:
            ExpressionError: it was written just now, and nests too deep.
        """
        if place is None:
            place = user_location()
            check_levels(tree, place)
        tree.meta.setdefault(PLACE, place)
        self._tree = tree

    @property
    def tree(self) -> ast.Expr:
        """The sqlglot tree; copy it before changing it."""
        return self._tree

    @property
    def place(self) -> str:
        """The user's ``file:line`` that created the expression."""
        return place_of(self._tree)

    @property
    def name(self) -> str:
        """The output name: the alias, else the column or struct field, else the expression as SQL text."""
        node = unwrapped(self._tree)
        if isinstance(node, ast.Alias):
            return str(node.alias)
        if isinstance(node, ast.Column):
            return str(node.name)
        if isinstance(node, ast.Anonymous) and node.name == "struct_extract":
            return str(node.expressions[1].name)
        return sql_text(node)

    def same_as(self, other: "Expr") -> bool:
        """Whether both are the same expression, wherever they were written."""
        return bool(structure(self._tree) == structure(other._tree))

    def desc(self) -> "Ordering":
        """Order by this expression, greatest first."""
        return Ordering(self, descending=True)

    def asc(self) -> "Ordering":
        """Order by this expression, smallest first."""
        return Ordering(self)

    def alias(self, name: str) -> "Expr":
        """Give the result this name."""
        inner = unwrapped(self._tree, keep_alias=False)
        return Expr(ast.Alias(this=inner.copy(), alias=ast.to_identifier(name)))

    def is_null(self) -> "Expr":
        """Whether the value is missing; never null itself."""
        return Expr(ast.Is(this=operand(self), expression=ast.Null()))

    def is_not_null(self) -> "Expr":
        """Whether there is a value; never null itself."""
        return Expr(ast.Not(this=ast.Is(this=operand(self), expression=ast.Null())))

    def fill_null(self, value: Operand) -> "Expr":
        """Put a value where it is missing."""
        nodes = [operand(self, wrap=False), operand(value, wrap=False)]
        return Expr(ast.Coalesce(this=nodes[0], expressions=nodes[1:]))

    def is_in(self, values: Iterable[Operand]) -> "Expr":
        """Whether the value is among these, with SQL's nulls: unknown if not found and one of them is null."""
        return Expr(ast.In(this=operand(self), expressions=[operand(value) for value in values]))

    def between(self, low: Operand, high: Operand) -> "Expr":
        """Whether low <= value <= high."""
        return Expr(ast.Between(this=operand(self), low=operand(low), high=operand(high)))

    def is_not_distinct_from(self, other: Operand) -> "Expr":
        """Whether both are equal or both are null; never null itself."""
        return Expr(ast.NullSafeEQ(this=operand(self), expression=operand(other)))

    def cast(self, kind: DataTypeLike) -> "Expr":
        """Convert to a type; a value that does not convert is an error of its row. To integers it truncates."""
        return Expr(ast.Cast(this=operand(self, wrap=False), to=to_sql_type(to_arrow(kind))))

    def try_cast(self, kind: DataTypeLike) -> "Expr":
        """Convert to a type; a value that does not convert is null."""
        return Expr(ast.TryCast(this=operand(self, wrap=False), to=to_sql_type(to_arrow(kind))))

    def abs(self) -> "Expr":
        """The absolute value."""
        return self.call("abs")

    def sign(self) -> "Expr":
        """-1, 0 or 1, as int64; 0 for NaN."""
        return self.call("sign")

    def round(self, digits: int = 0) -> "Expr":
        """Round half away from zero to this many decimal places."""
        return self.call("round", digits)

    def floor(self) -> "Expr":
        """The greatest whole number not above."""
        return self.call("floor")

    def ceil(self) -> "Expr":
        """The least whole number not below."""
        return self.call("ceil")

    def sqrt(self) -> "Expr":
        """The square root as double; NaN for negative numbers."""
        return self.call("sqrt")

    def exp(self) -> "Expr":
        """E to this power, as double."""
        return self.call("exp")

    def ln(self) -> "Expr":
        """The natural logarithm as double; -inf for zero, NaN for negative numbers."""
        return self.call("ln")

    def power(self, exponent: Operand) -> "Expr":
        """This to a power, as double."""
        return self.call("power", exponent)

    def call(self, function: str, *arguments: Operand) -> "Expr":
        """Call one of `functions.FUNCTIONS` on this expression."""
        return call(function, self, *arguments)

    __add__ = _operator(ast.Add)
    __radd__ = _operator(ast.Add, swap=True)
    __sub__ = _operator(ast.Sub)
    __rsub__ = _operator(ast.Sub, swap=True)
    __mul__ = _operator(ast.Mul)
    __rmul__ = _operator(ast.Mul, swap=True)
    __truediv__ = _operator(ast.Div)
    __rtruediv__ = _operator(ast.Div, swap=True)
    __floordiv__ = _operator(ast.IntDiv)
    __rfloordiv__ = _operator(ast.IntDiv, swap=True)
    __mod__ = _operator(ast.Mod)
    __rmod__ = _operator(ast.Mod, swap=True)
    __and__ = _operator(ast.And)
    __rand__ = _operator(ast.And, swap=True)
    __or__ = _operator(ast.Or)
    __ror__ = _operator(ast.Or, swap=True)
    __lt__ = _operator(ast.LT)
    __le__ = _operator(ast.LTE)
    __gt__ = _operator(ast.GT)
    __ge__ = _operator(ast.GTE)
    _equals = _operator(ast.EQ)
    _differs = _operator(ast.NEQ)

    def __eq__(self, other: Operand) -> "Expr":  # type: ignore[override]
        return self._equals(other)

    def __ne__(self, other: Operand) -> "Expr":  # type: ignore[override]
        return self._differs(other)

    def __pow__(self, other: Operand) -> "Expr":
        return self.power(other)

    def __neg__(self) -> "Expr":
        return Expr(ast.Neg(this=operand(self)))

    def __invert__(self) -> "Expr":
        return Expr(ast.Not(this=operand(self)))

    def __getitem__(self, field: str) -> "Expr":
        """Return a field of a struct."""
        if not isinstance(field, str):
            raise TypeError(f"{self!r}[{field!r}]: a struct field has a name")
        return self.call("struct_extract", field)

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"The expression {self!r} at {user_location()} is one value of each row, not all of them: in place of "
            "Python's own sum(), min() or max() write sum_, min_ or max_ of penstock inside agg(...)."
        )

    def __abs__(self) -> "Expr":
        return self.abs()

    def __len__(self) -> NoReturn:
        raise TypeError(f"len() does not work on the expression {self!r}: use count() inside agg(...), or .length().")

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(f"'in' does not work on the expression {self!r}: use .is_in([...])")

    def __bool__(self) -> NoReturn:
        raise ExpressionError(
            f"The expression {self!r} at {user_location()} is no truth value: combine conditions with & | ~ "
            "in place of and, or, not and chained comparisons, and write min_ or max_ for Python's min() or max()."
        )

    def __hash__(self) -> int:
        return hash(structure(self._tree))

    def __repr__(self) -> str:
        return sql_text(self._tree)

    # These come last: below them, `str` in an annotation would mean the property.

    @property
    def struct(self) -> StructMethods:
        """Methods on structs."""
        return StructMethods(self)

    @property
    def dt(self) -> TimeMethods:
        """Methods on dates and timestamps."""
        return TimeMethods(self)

    @property
    def str(self) -> TextMethods:
        """Methods on text."""
        return TextMethods(self)


@dataclass(frozen=True, slots=True)
class Ordering:
    """An expression to order by, and the direction. Nulls come last in either; NaN is greater than any number."""

    expression: Expr
    descending: bool = False


def col(name: str) -> Expr:
    """Return the column of this name."""
    return Expr(ast.Column(this=ast.to_identifier(name)))


def lit(value: Literal) -> Expr:
    """Return a constant."""
    place = user_location()
    return Expr(to_node(value, place), place)


def to_expr(value: Operand) -> Expr:
    """Return an expression as it is and anything else as a constant."""
    return value if isinstance(value, Expr) else lit(value)


def to_expr_column(value: Operand) -> Expr:
    """As `to_expr`, for places that name columns: text is a column name."""
    return col(value) if isinstance(value, str) else to_expr(value)


def call(function: str, *arguments: Operand) -> Expr:
    """Call one of `functions.FUNCTIONS`; the arguments are checked when the schema is known."""
    nodes = [operand(argument, wrap=False) for argument in arguments]
    return Expr(ast.Anonymous(this=function, expressions=nodes))


def operand(value: Operand, wrap: bool = True) -> ast.Expr:
    """Return a copy of a value's tree, without alias, to put under another node; ``wrap`` adds parentheses."""
    node = unwrapped(to_expr(value).tree, keep_alias=False).copy()
    return ast.Paren(this=node) if wrap and isinstance(node, _COMPOSED) else node


def columns_of(expression: Expr) -> frozenset[str]:
    """Return the names of the columns an expression reads."""
    return frozenset(column_uses(expression))


def column_uses(expression: Expr) -> list[str]:
    """Return the name of the column at every place where an expression reads one."""
    return [column.name for column in expression.tree.find_all(ast.Column)]


def node_count(expression: Expr) -> int:
    """Return how many nodes the expression has."""
    return sum(1 for _ in expression.tree.walk())


def column_name(expression: Expr) -> str | None:
    """Return the column that an expression passes on as it is, under whatever alias; None if it computes."""
    node = unwrapped(expression.tree, keep_alias=False)
    return str(node.name) if isinstance(node, ast.Column) else None


def substitute(expression: Expr, mapping: Mapping[str, Expr]) -> Expr:
    """Replace columns by expressions: what an expression over a projection's output means over its input."""

    def replaced(node: Any) -> Any:
        if isinstance(node, ast.Column) and node.name in mapping:
            return operand(mapping[node.name])
        return node

    return Expr(unwrapped(expression.tree.transform(replaced)), expression.place)


def conjuncts(expression: Expr) -> tuple[Expr, ...]:
    """Return the conditions that ``&`` joins, in order; the expression itself if there is no ``&``."""
    node = unwrapped(expression.tree, keep_alias=False)
    if not isinstance(node, ast.And):
        return (Expr(node.copy(), place_of(node)),)
    parts = (Expr(unwrapped(side).copy(), place_of(side)) for side in (node.this, node.expression))
    return tuple(condition for part in parts for condition in conjuncts(part))
