"""Which columns of a sink the stream approximates, where a batch computes exactly: sketches of values and of ranks.

Worked out from the plan; `validation` compares such columns within their error, or leaves them out and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from penstock.engine.accumulators.sketches import APPROXIMATE, LG_K, standard_error
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import Expr, columns_of
from penstock.model.job_graph import (
    AggregateSpec,
    FilterSpec,
    JobGraph,
    OperatorNode,
    ProjectSpec,
    SourceSpec,
    SplitSpec,
    UnionSpec,
)
from penstock.model.keyed_specs import OverSpec
from penstock.replay.frames import ReplayError, refused

STANDARD_ERRORS = 5
"""So many may an estimate be away from the exact value: one in a million is farther."""


@dataclass(frozen=True, slots=True)
class Approximate:
    """How a column came to be: ``error`` is how far it may be away, relative to its value; None: nobody knows."""

    function: str
    error: float | None = None


Columns = Mapping[str, Approximate]


def approximate_columns(graph: JobGraph, sink: OperatorNode) -> Columns:
    """Return the approximate columns of what a sink gets.

    Raises:
        ReplayError: an operator decides by one of them which rows there are.
    """
    return _input_of(graph, sink, 0)


def _of(graph: JobGraph, node: OperatorNode) -> Columns:
    spec = node.spec
    if isinstance(spec, SourceSpec):
        return {}
    inputs = [_input_of(graph, node, port) for port in range(len(node.inputs))]
    known = {name: found for columns in inputs for name, found in columns.items()}
    if isinstance(spec, AggregateSpec | OverSpec):
        _check(node, known, _used(spec))
        own = {name: _made(call) for name, call in spec.aggregates if call.function in APPROXIMATE}
        return {**known, **own} if isinstance(spec, OverSpec) else own
    if not known:
        return {}
    if isinstance(spec, FilterSpec):
        _check(node, known, [spec.predicate])
    elif isinstance(spec, SplitSpec):
        _check(node, known, (predicate for _, predicate in spec.outputs))
    elif isinstance(spec, ProjectSpec):
        _check(node, known, [] if spec.where is None else [spec.where])
        return {name: found for name, expression in spec.columns if (found := _computed(expression, known)) is not None}
    elif not isinstance(spec, UnionSpec):
        raise _reason(node, *next(iter(known.items())))
    return known


def _input_of(graph: JobGraph, node: OperatorNode, port: int) -> Columns:
    return _of(graph, graph[node.inputs[port].operator])


def _used(spec: AggregateSpec | OverSpec) -> Iterable[Expr]:
    yield from (key for _, key in spec.keys)
    for _, call in spec.aggregates:
        yield from call.inputs
        if call.where is not None:
            yield call.where
    if isinstance(spec, OverSpec):
        yield from (by.expression for by in spec.order)


def _check(node: OperatorNode, known: Columns, expressions: Iterable[Expr]) -> None:
    for expression in expressions:
        for name in sorted(columns_of(expression)):
            if name in known:
                raise _reason(node, name, known[name])


def _reason(node: OperatorNode, name: str, found: Approximate) -> ReplayError:
    return refused(
        node,
        f"it works with {name!r}, which the stream approximates ({found.function}) and a batch computes exactly; "
        "compare what comes before it",
    )


def _computed(expression: Expr, known: Columns) -> Approximate | None:
    """Return what a column is that is computed, None if it is exact."""
    found = [known[name] for name in sorted(columns_of(expression)) if name in known]
    if not found:
        return None
    tree = expression.tree
    while isinstance(tree, exp.Alias | exp.Paren):
        tree = tree.this
    return found[0] if isinstance(tree, exp.Column) else Approximate(found[0].function)


def _made(call: AggregateCall) -> Approximate:
    if call.function != "approx_count_distinct":
        return Approximate(call.function)
    return Approximate(call.function, STANDARD_ERRORS * standard_error(int(call.options.get("lg_k", LG_K))))
