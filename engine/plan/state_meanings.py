"""The meaning of each operator's state, in the words of the pipeline: pure functions of the plan.

In manifests by `checkpoint.writer`; `meaning_changes` compares two. Nothing depends on parallelism, and of what the
optimiser does only the conditions that it moves into joins, for they decide which rows are kept. What functions of the
user's do is not part of it, but the state that they declare is.
"""

from penstock.engine.operators.descriptor import PlanContext
from penstock.engine.operators.registry import descriptor_of
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, OperatorNode, SourceSpec
from penstock.state.checkpoints.operator_meaning import OperatorMeaning


def verb_of(node: OperatorNode) -> str:
    """Return the verb that makes operators of this kind."""
    return descriptor_of(node.spec).verb


def meanings_of(plan: ExecutionGraph) -> dict[str, OperatorMeaning]:
    """Return what the state of each operator of a plan stands for, by name; operators without state are left out."""
    kinds = ((node, descriptor_of(node.spec)) for node in plan.graph.operators.values())
    return {node.name: kind.meaning(node.spec, _context(plan, node)) for node, kind in kinds if kind.stateful}


def _context(plan: ExecutionGraph, node: OperatorNode) -> PlanContext:
    edges = sorted(plan.incoming(node.id), key=lambda edge: edge.port)
    return PlanContext(
        node.name,
        tuple(plan.graph[edge.operator].outputs[edge.output] for edge in node.inputs),
        tuple(edge.keys for edge in edges),
        tuple(_sources(plan.graph, edge.operator) for edge in node.inputs),
    )


def _sources(graph: JobGraph, operator: OperatorId) -> tuple[str, ...]:
    """Return the names of the sources upstream of an operator, itself included."""
    upstream = graph.upstream((operator,)).values()
    return tuple(sorted(node.name for node in upstream if isinstance(node.spec, SourceSpec)))
