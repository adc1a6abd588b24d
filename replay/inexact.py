"""Columns that a stream approximates by sketches, where a batch computes exactly: what they are, and who may use them.

`validation` compares such columns within their error, or leaves them out and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from penstock.engine.accumulators.sketches import APPROXIMATE, LG_K, standard_error
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import Expr, columns_of
from penstock.model.job_graph import Keys, OperatorNode
from penstock.replay.frames import ReplayError, refused

STANDARD_ERRORS = 5
"""So many may an estimate be away from the exact value: one in a million is farther."""


@dataclass(frozen=True, slots=True)
class ApproximateColumn:
    """A column computed by a sketch: ``error`` is its bound, relative to its value; None: unknown."""

    function: str
    error: float | None = None


InexactColumns = Mapping[str, ApproximateColumn]


def sketches(aggregates: Iterable[tuple[str, AggregateCall]]) -> InexactColumns:
    """Return those of some aggregates that are sketches."""
    return {name: _sketch(call) for name, call in aggregates if call.function in APPROXIMATE}


def aggregate_inputs(keys: Keys, aggregates: Iterable[tuple[str, AggregateCall]]) -> Iterator[Expr]:
    """Yield the expressions that say which rows go together, and what is computed of them."""
    yield from (key for _, key in keys)
    for _, call in aggregates:
        yield from call.inputs
        if call.where is not None:
            yield call.where


def computed_column(expression: Expr, approximate: InexactColumns) -> ApproximateColumn | None:
    """Return what a column is that is computed, None if it is exact."""
    approximated = [approximate[name] for name in sorted(columns_of(expression)) if name in approximate]
    if not approximated:
        return None
    tree = expression.tree
    while isinstance(tree, exp.Alias | exp.Paren):
        tree = tree.this
    return approximated[0] if isinstance(tree, exp.Column) else ApproximateColumn(approximated[0].function)


def check_exact(node: OperatorNode, approximate: InexactColumns, expressions: Iterable[Expr]) -> None:
    """Check that an operator decides nothing by a column that is known to be approximated.

    Raises:
        ReplayError: it does.
    """
    for expression in expressions:
        for name in sorted(columns_of(expression)):
            if name in approximate:
                raise inexact(node, name, approximate[name])


def inexact(node: OperatorNode, name: str, column: ApproximateColumn) -> ReplayError:
    """Return the error of an operator that works with such a column."""
    return refused(
        node,
        f"it works with {name!r}, which the stream approximates ({column.function}) and a batch computes exactly; "
        "compare what comes before it",
    )


def _sketch(call: AggregateCall) -> ApproximateColumn:
    if call.function != "approx_count_distinct":
        return ApproximateColumn(call.function)
    return ApproximateColumn(call.function, STANDARD_ERRORS * standard_error(int(call.options.get("lg_k", LG_K))))
