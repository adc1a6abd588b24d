"""Operators suspected when some sinks differ from a replay and others do not. Pure.

Called by ``penstock validate`` with its results.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec
from penstock.replay.validation_result import ComparisonStatus, QueryValidation


def suspect_operators(graph: JobGraph, sink: str, same: Collection[str]) -> list[OperatorNode]:
    """Return the operators that a sink which differs depends on, and none of the sinks that are the ``same`` does.

    From sources to the sink, which is the last of them: an operator whose rows reach a sink that is the same is right,
    as far as that sink shows.
    """
    trusted: set[OperatorId] = set()
    for node in graph.operators.values():
        if isinstance(node.spec, SinkSpec) and node.name in same:
            trusted |= _upstream(graph, node)
    wrong = next(node for node in graph.operators.values() if isinstance(node.spec, SinkSpec) and node.name == sink)
    suspects = _upstream(graph, wrong) - trusted
    return [node for node in graph.operators.values() if node.id in suspects]


def with_suspects(graph: JobGraph, queries: Sequence[QueryValidation]) -> list[QueryValidation]:
    """Return the results, with a note in each that differs: what leads to it and to nothing that is right."""
    same = [query.query for query in queries if query.status is ComparisonStatus.SAME]
    return [
        replace(query, notes=(*query.notes, _suspects_sentence(graph, query.query, same)))
        if query.status is ComparisonStatus.DIFFERS
        else query
        for query in queries
    ]


def _suspects_sentence(graph: JobGraph, sink: str, same: Collection[str]) -> str:
    suspects = [node for node in suspect_operators(graph, sink, same) if not isinstance(node.spec, SinkSpec)]
    names = ", ".join(repr(node.name) for node in suspects)
    if not suspects:
        return "every operator before it also leads to a sink that is the same, so look at the sink and what it wrote"
    others = " and to no sink that is the same" if same else ""
    return f"look at {names}: they lead to it{others}"


def _upstream(graph: JobGraph, node: OperatorNode) -> set[OperatorId]:
    upstream: set[OperatorId] = set()
    pending = [node.id]
    while pending:
        operator = pending.pop()
        if operator not in upstream:
            upstream.add(operator)
            pending.extend(edge.operator for edge in graph[operator].inputs)
    return upstream
