"""Parts of a file that a predicate rules out, by the least and greatest value of each column in each part.

Pure; called by the Parquet source with the statistics of row groups. Comparisons are evaluated by the same compiled
expressions as over rows, so that types and constants mean the same here.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from penstock.engine.expressions.compiler import compile_predicate
from penstock.model.errors import PenstockError
from penstock.model.expressions import Expr, columns_of

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PartStatistics:
    """Statistics of parts of a file: one row per part in ``least`` and ``greatest`` (null: not known).

    ``nulls`` has, by column, how many values of each part are null; -1 is not known.
    """

    rows: NDArray[np.int64]
    least: pa.RecordBatch
    greatest: pa.RecordBatch
    nulls: dict[str, NDArray[np.int64]]


Possible = Callable[[PartStatistics], Mask]
"""Whether something can be so for some row of each part."""

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}
_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}
_HARMLESS: tuple[type[exp.Expr], ...] = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.Paren,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Mod,
    exp.Div,
    *_FLIPPED,
)
"""Nodes that cannot fail for a row. A predicate with others is not used: its failing rows are bad records."""


class StatisticsFilter:
    """Says for which parts a predicate may be true. A part without statistics may always match."""

    def __init__(self, predicate: Expr, schema: pa.Schema) -> None:
        """Take a predicate over columns of ``schema``."""
        self.fields = pa.schema([field for field in schema if field.name in columns_of(predicate)])
        """The columns whose statistics `may_match` needs, in this order."""
        self._possible: Possible = _everywhere
        if all(isinstance(node, _HARMLESS) for node in _varying(predicate.tree)):
            self._possible = self._build(predicate.tree, True)

    def may_match(self, statistics: PartStatistics) -> Mask:
        """Return for each part whether some row may fulfil the predicate."""
        return self._possible(statistics)

    def _build(self, node: exp.Expr, truth: bool) -> Possible:
        """Return whether ``node`` can be ``truth`` (null is neither true nor false)."""
        if isinstance(node, exp.Paren | exp.Alias):
            return self._build(node.this, truth)
        if isinstance(node, exp.Not):
            return self._build(node.this, not truth)
        if isinstance(node, exp.And | exp.Or):
            sides = self._build(node.this, truth), self._build(node.expression, truth)
            return _both(*sides) if isinstance(node, exp.And) == truth else _either(*sides)
        if isinstance(node, exp.Boolean):
            return _everywhere if bool(node.this) == truth else _nowhere
        if isinstance(node, exp.Null):
            return _nowhere
        if isinstance(node, exp.Column):
            return self._compare(exp.EQ, node, exp.Boolean(this=truth))
        if isinstance(node, exp.Is):
            return self._is_null(node, truth)
        if isinstance(node, exp.Between):
            bounds = exp.And(
                this=exp.GTE(this=node.this.copy(), expression=node.args["low"].copy()),
                expression=exp.LTE(this=node.this.copy(), expression=node.args["high"].copy()),
            )
            return self._build(bounds, truth)
        if isinstance(node, exp.In) and truth and node.expressions:
            tests = [self._compare(exp.EQ, node.this, value) for value in node.expressions]
            return lambda statistics: np.logical_or.reduce([test(statistics) for test in tests])
        kind = type(node)
        if kind in _FLIPPED:
            return self._compare(kind if truth else _NEGATED[kind], node.this, node.expression)
        return _everywhere

    def _compare(self, kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> Possible:
        left, right = _unwrapped(left), _unwrapped(right)
        if isinstance(right, exp.Column):
            kind, left, right = _FLIPPED[kind], right, left
        if not isinstance(left, exp.Column) or next(right.find_all(exp.Column), None) is not None:
            return _everywhere
        test = self._test(kind, left, right)
        name = left.name

        def possible(statistics: PartStatistics) -> Mask:
            nulls = statistics.nulls.get(name)
            only_nulls = np.False_ if nulls is None else nulls == statistics.rows
            return np.asarray(test(statistics) & ~only_nulls)

        return possible

    def _test(self, kind: type[exp.Expr], column: exp.Column, constant: exp.Expr) -> Possible:
        """Return whether some value between the least and the greatest compares like that."""
        floating = pa.types.is_floating(self.fields.field(column.name).type)
        if floating and kind in (exp.GT, exp.GTE, exp.NEQ):
            # NaN is the greatest number and not part of the statistics.
            return _everywhere
        if kind in (exp.GT, exp.GTE):
            return self._evaluated(kind, column, constant, greatest=True)
        if kind in (exp.LT, exp.LTE):
            return self._evaluated(kind, column, constant, greatest=False)
        if kind is exp.EQ:
            return _both(self._test(exp.GTE, column, constant), self._test(exp.LTE, column, constant))
        return _either(
            self._evaluated(exp.NEQ, column, constant, greatest=False),
            self._evaluated(exp.NEQ, column, constant, greatest=True),
        )

    def _evaluated(self, kind: type[exp.Expr], column: exp.Column, constant: exp.Expr, *, greatest: bool) -> Possible:
        comparison = Expr(kind(this=column.copy(), expression=constant.copy()))
        try:
            compiled = compile_predicate(comparison, pa.schema([self.fields.field(column.name)]), "statistics")
        except PenstockError:
            return _everywhere

        def possible(statistics: PartStatistics) -> Mask:
            values = statistics.greatest if greatest else statistics.least
            if column.name not in values.schema.names:
                return np.ones(len(statistics.rows), np.bool_)
            try:
                matches = compiled(values.select([column.name]))
            except (PenstockError, pa.ArrowException):
                return np.ones(len(statistics.rows), np.bool_)
            return np.asarray(matches.fill_null(True))

        return possible

    def _is_null(self, node: exp.Is, truth: bool) -> Possible:
        column = _unwrapped(node.this)
        if not isinstance(column, exp.Column) or not isinstance(node.expression, exp.Null):
            return _everywhere
        name = column.name

        def possible(statistics: PartStatistics) -> Mask:
            nulls = statistics.nulls.get(name)
            if nulls is None:
                return np.ones(len(statistics.rows), np.bool_)
            return np.asarray(nulls != 0 if truth else nulls != statistics.rows)

        return possible


def _everywhere(statistics: PartStatistics) -> Mask:
    return np.ones(len(statistics.rows), np.bool_)


def _nowhere(statistics: PartStatistics) -> Mask:
    return np.zeros(len(statistics.rows), np.bool_)


def _both(left: Possible, right: Possible) -> Possible:
    return lambda statistics: np.asarray(left(statistics) & right(statistics))


def _either(left: Possible, right: Possible) -> Possible:
    return lambda statistics: np.asarray(left(statistics) | right(statistics))


def _unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _varying(tree: exp.Expr) -> list[exp.Expr]:
    """Return the nodes that depend on the row: those above or at a column."""
    nodes: dict[int, exp.Expr] = {}
    for column in tree.find_all(exp.Column):
        node: exp.Expr | None = column
        while node is not None and id(node) not in nodes:
            nodes[id(node)] = node
            node = None if node is tree else node.parent
    return list(nodes.values())
