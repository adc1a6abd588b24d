"""Columns that identify a row of a sink: its key and window, so that two answers can be matched.

Worked out from the plan, from the sink upwards; `comparison` pairs rows by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.engine.operators.aggregates.aggregate_schema import WINDOW_COLUMNS
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec
from penstock.replay.operators.registry import form_of


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
    columns = _key_columns(graph, graph[edge.operator], names)
    keys = tuple(sink.spec.key) or tuple(columns)
    window = {columns[name]: name for name in columns}
    start, end = map(window.get, WINDOW_COLUMNS)
    time = schema.time.name if schema.time is not None else None
    return OutputKeys(keys, start, end, time) if start and end else OutputKeys(keys, time=time)


def _key_columns(graph: JobGraph, node: OperatorNode, names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the key columns that reach the sink: their name there, and what the operator that made them calls them.

    ``names`` are the sink's names by those of the operator's output; a key that was dropped on the way leaves none.
    """
    form = form_of(node.spec)
    passed = form.passed(node.spec, names)
    if passed is not None:
        return _key_columns(graph, graph[node.inputs[0].operator], passed)
    own = form.row_keys(node.spec, node)
    return {names[name]: name for name in own} if all(name in names for name in own) else {}
