"""Columns of a sink that the stream approximates and a batch computes exactly, derived from the plan."""

from __future__ import annotations

from penstock.model.job_graph import JobGraph, OperatorNode
from penstock.replay.inexact import InexactColumns
from penstock.replay.operators.registry import form_of


def approximate_columns(graph: JobGraph, sink: OperatorNode) -> InexactColumns:
    """Return the approximate columns of what a sink gets.

    Raises:
        ReplayError: an operator decides by one of them which rows there are.
    """
    return _input_of(graph, sink, 0)


def _input_of(graph: JobGraph, node: OperatorNode, port: int) -> InexactColumns:
    before = graph[node.inputs[port].operator]
    inputs = (_input_of(graph, before, other) for other in range(len(before.inputs)))
    approximate = {name: column for columns in inputs for name, column in columns.items()}
    return form_of(before.spec).inexact(before.spec, before, approximate)
