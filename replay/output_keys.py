"""Which columns say what a row of a sink is about: its key and window, so that two answers can be held together.

Worked out from the plan, from the sink upwards; `comparison` pairs rows by them.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.model.expressions import Expr
from penstock.model.job_graph import (
    AggregateSpec,
    BatchFunctionSpec,
    FilterSpec,
    JobGraph,
    OperatorNode,
    ProjectSpec,
    ReduceSpec,
    SinkSpec,
    SplitSpec,
    UnionSpec,
)
from penstock.model.keyed_specs import TopSpec
from penstock.model.windows import Count, Global, Windowing

WINDOW_START, WINDOW_END = "window_start", "window_end"


@dataclass(frozen=True, slots=True)
class OutputKeys:
    """``columns``: a row's key and window, by the names it has in the sink; empty if nothing in the plan says so.

    ``window_start`` and ``window_end`` are among them if the sink has both, under whatever name; else None.
    ``time`` is the event time column of rows without a window, if there is one.
    """

    columns: tuple[str, ...] = ()
    window_start: str | None = None
    window_end: str | None = None
    time: str | None = None


def output_keys(graph: JobGraph, sink: OperatorNode) -> OutputKeys:
    """Return what identifies a row that a sink gets."""
    assert isinstance(sink.spec, SinkSpec)
    edge = sink.inputs[0]
    schema = graph[edge.operator].outputs[edge.output]
    names = {name: name for name in schema.fields.names}
    found = _found(graph, graph[edge.operator], names)
    keys = tuple(sink.spec.key) or tuple(found)
    window = {found[name]: name for name in found}
    start, end = window.get(WINDOW_START), window.get(WINDOW_END)
    time = schema.time.name if schema.time is not None else None
    return OutputKeys(keys, start, end, time) if start and end else OutputKeys(keys, time=time)


def _found(graph: JobGraph, node: OperatorNode, names: dict[str, str]) -> dict[str, str]:
    """Return the key columns that reach the sink: their name there, and what the operator that made them calls them.

    ``names`` are the sink's names by those of the operator's output; a key that was dropped on the way leaves none.
    """
    spec = node.spec
    if isinstance(spec, FilterSpec | SplitSpec):
        return _found(graph, graph[node.inputs[0].operator], names)
    if isinstance(spec, ProjectSpec):
        plain = {name: column for name, expression in spec.columns if (column := _column(expression)) is not None}
        passed = {plain[name]: known for name, known in names.items() if name in plain}
        return _found(graph, graph[node.inputs[0].operator], passed)
    if isinstance(spec, UnionSpec | BatchFunctionSpec):
        return {}
    own = _own_keys(node)
    if not own or any(name not in names for name in own):
        return {}
    return {names[name]: name for name in own}


def _own_keys(node: OperatorNode) -> tuple[str, ...]:
    spec = node.spec
    if isinstance(spec, AggregateSpec | ReduceSpec):
        return (*(name for name, _ in spec.keys), *_window(spec.windowing, node))
    if isinstance(spec, TopSpec) and spec.rank is not None:
        return (*(name for name, _ in spec.keys), spec.rank)
    return ()


def _window(windowing: Windowing | None, node: OperatorNode) -> tuple[str, ...]:
    if windowing is None or isinstance(windowing.window, Global):
        return ()
    names = node.outputs["main"].fields.names
    if isinstance(windowing.window, Count):
        # Windows of rows have bounds too, but nothing says that those of a key differ.
        return ()
    return tuple(name for name in (WINDOW_START, WINDOW_END) if name in names)


def _column(expression: Expr) -> str | None:
    tree = expression.tree
    while isinstance(tree, exp.Alias | exp.Paren):
        tree = tree.this
    return str(tree.name) if isinstance(tree, exp.Column) else None
