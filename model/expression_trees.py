"""Questions about sqlglot trees that do not need a schema: where a node was written, how it reads, what it equals.

Expressions and their typing ask; the user's ``file:line`` travels in the metadata of each node.
"""

from typing import Any

from sqlglot import exp

PLACE = "at"
"""The key of a node's metadata under which the user's ``file:line`` is kept."""


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


def structure(node: Any) -> Any:
    """Return what makes two trees the same: hashable, blind to places and parentheses."""
    if isinstance(node, list):
        return tuple(structure(item) for item in node)
    if not isinstance(node, exp.Expr):
        return node
    node = bare(node)
    if isinstance(node, exp.Identifier):
        return node.name
    given = ((key, part) for key, part in node.args.items() if part is not None and part != [])
    return (type(node).__name__, *sorted((key, structure(part)) for key, part in given))


def bare(node: exp.Expr, keep_alias: bool = True) -> exp.Expr:
    """Return the node inside parentheses and, unless it is kept, its alias."""
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Alias) and not keep_alias):
        node = node.this
    return node
