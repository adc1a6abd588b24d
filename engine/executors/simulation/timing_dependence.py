"""The sinks of a pipeline whose rows depend on timing, and may differ between runs.

Late rows, processing time, order of arrival and unordered calls depend on timing, so their sinks are not compared.
"""

from collections.abc import Iterable, Mapping

from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.optimiser import reachable
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.ids import OperatorId
from penstock.model.job_graph import LATE, JobGraph, OperatorNode, SinkSpec


def timing_dependent_sinks(graph: JobGraph, late: Iterable[str] = ()) -> dict[str, str]:
    """Return the sinks, by name, whose rows depend on timing, and why; ``late`` are operators that had late rows."""
    counted = set(late)
    why: dict[OperatorId, str] = {}
    for node in graph.operators.values():
        reason = _own_reason(node)
        if reason is None and node.name in counted:
            reason = f"rows came late to {node.name!r}"
        for edge in node.inputs:
            reason = reason or why.get(edge.operator) or _edge_reason(graph, edge.operator, edge.output)
        if reason is not None:
            why[node.id] = reason
    return {
        node.name: why[node.id]
        for node in graph.operators.values()
        if isinstance(node.spec, SinkSpec) and node.id in why
    }


def without_sinks(graph: JobGraph, names: Mapping[str, str]) -> JobGraph:
    """Return the graph without these sinks and what only they read."""
    kept = {
        key: node
        for key, node in graph.operators.items()
        if not (isinstance(node.spec, SinkSpec) and node.name in names)
    }
    return reachable(JobGraph(kept))


def _own_reason(node: OperatorNode) -> str | None:
    reason = descriptor_of(node.spec).depends_on(node.spec)
    return None if reason is None else f"{node.name!r} {reason}"


def _edge_reason(graph: JobGraph, operator: OperatorId, output: str) -> str | None:
    if output == LATE:
        return f"it gets the late rows of {graph[operator].name!r}"
    if output == DEAD_LETTER:
        return f"it gets the dead letters of {graph[operator].name!r}, which tell their time"
    return None
