"""Properties of sqlglot trees that need no schema: source locations, SQL text, equality, depth.

Used by expressions and their typing; the user's ``file:line`` travels in the metadata of each node.
"""

from typing import Any

from sqlglot import exp

from penstock.model.errors import ExpressionError

PLACE = "at"
"""The key of a node's metadata under which the user's ``file:line`` is kept."""

MOST_LEVELS = 100
"""The greatest depth of nested operators: typing and printing a tree recur, and the caller has a stack too."""


def place_of(node: exp.Expr) -> str:
    """Return the user's ``file:line`` nearest to a node of a tree."""
    nearest: exp.Expr | None = node
    while nearest is not None:
        if PLACE in nearest.meta:
            return str(nearest.meta[PLACE])
        nearest = nearest.parent
    return "an unknown place"


def sql_text(node: exp.Expr) -> str:
    """Return a tree as the SQL text people read in messages and plans."""
    return str(node.sql(dialect="duckdb", normalize_functions=False))


def with_sorted_members(node: exp.Expr) -> exp.Expr:
    """Return a copy of a tree in which the members of every ``IN`` stand in one order, however they were listed."""
    ordered = node.copy()
    for membership in ordered.find_all(exp.In):
        membership.set("expressions", sorted(membership.expressions, key=sql_text))
    return ordered


def structure(node: Any) -> Any:
    """Return a hashable key that is equal for equal trees, whatever their places and parentheses."""
    if isinstance(node, list):
        return tuple(structure(item) for item in node)
    if not isinstance(node, exp.Expr):
        return node
    node = unwrapped(node)
    if isinstance(node, exp.Identifier):
        return node.name
    arguments = ((key, part) for key, part in node.args.items() if part is not None and part != [])
    return (type(node).__name__, *sorted((key, structure(part)) for key, part in arguments))


def levels(node: exp.Expr) -> int:
    """Return how deep operators and functions are nested in a tree; columns, constants, parentheses do not count."""
    deepest = 0
    pending = [(node, 0)]
    while pending:
        node, above = pending.pop()
        deepest = max(deepest, above)
        if not isinstance(node, exp.Column):
            below = above if isinstance(node, exp.Paren | exp.Alias) else above + 1
            pending += [(part, below) for part in node.iter_expressions()]
    return deepest


_PLAIN = (exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren)
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or, exp.Not, exp.Is, exp.In)


def never_fails(node: exp.Expr) -> bool:
    """Return whether no row can make the tree fail, as it only compares columns and constants."""
    return all(isinstance(part, (*_PLAIN, *_COMPARED)) for part in node.walk())


def check_levels(node: exp.Expr, place: str) -> None:
    """Refuse a tree of more than `MOST_LEVELS`.

    Raises:
        ExpressionError: it is deeper; the message names ``place``.
    """
    if levels(node) > MOST_LEVELS:
        raise too_deep(f"The expression at {place} nests more than {MOST_LEVELS} operators and functions")


def too_deep(what: str) -> ExpressionError:
    """Return the error that begins with ``what`` and goes on with the remedies."""
    return ExpressionError(
        f"{what}: compute parts of it as columns with with_columns(...) first, "
        "or use is_in([...]) in place of many comparisons."
    )


def unwrapped(node: exp.Expr, keep_alias: bool = True) -> exp.Expr:
    """Return the node inside parentheses and, unless it is kept, its alias."""
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Alias) and not keep_alias):
        node = node.this
    return node
