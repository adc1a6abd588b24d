"""Puts shedders where queries of different contracts part behind a source. Pure; the planner does it last.

Until the last of them rows may have one column more (`STEP`), which operators between a source and its branches carry.
"""

from dataclasses import replace

from penstock.engine.plan.schemas import output_schemas
from penstock.engine.plan.shedding_points import shedding_points
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.ids import OperatorId
from penstock.model.job_graph import BranchSpec, Input, JobGraph, OperatorNode, SourceSpec
from penstock.model.keep_rates import Edge, branch_name


def with_branch_shedders(graph: JobGraph) -> JobGraph:
    """Return the graph with a shedder on every branch that may be shed; the same graph if there is none.

    Sources that end by themselves are looked at, too. Where rows leave the way to branches without being a branch
    themselves, what stands there only takes their steps away.
    """
    points = shedding_points(graph, bounded=True)
    edges = points.branches.keys() - points.keyed
    if not edges:
        return graph
    ids = {node.name: node.id for node in graph.operators.values()}
    carriers: set[OperatorId] = set()
    numbers: dict[Edge, int] = {}
    taken: dict[OperatorId, int] = {}
    for edge in sorted(edges):
        way = _way(graph, ids[edge[0]])
        carriers |= set(way)
        numbers[edge] = taken.get(way[-1], 0)
        taken[way[-1]] = numbers[edge] + 1
    rebuilt = JobGraph()
    for node in graph.operators.values():
        inputs = tuple(_input(rebuilt, node, port, carriers, numbers) for port in range(len(node.inputs)))
        rebuilt.add(replace(node, inputs=inputs))
    return rebuilt


def shed_branches(graph: JobGraph) -> frozenset[Edge]:
    """Return the branches of a plan that have shedders."""
    specs = [node.spec for node in graph.operators.values() if isinstance(node.spec, BranchSpec)]
    return frozenset(spec.edge for spec in specs if spec.number is not None)


def branches_behind(graph: JobGraph, source: OperatorId) -> tuple[str, ...]:
    """Return the names of the branches behind a source of a plan, by their numbers."""
    specs = {
        spec.number: branch_name(spec.edge)
        for node in graph.operators.values()
        if isinstance(spec := node.spec, BranchSpec)
        and spec.number is not None
        and _way(graph, node.inputs[0].operator)[-1] == source
    }
    return tuple(specs[number] for number in sorted(specs))


def _way(graph: JobGraph, operator: OperatorId) -> tuple[OperatorId, ...]:
    """Return an operator and those above it up to its source; each has one input."""
    way = [operator]
    while not isinstance(graph[way[-1]].spec, SourceSpec):
        (edge,) = graph[way[-1]].inputs
        way.append(edge.operator)
    return tuple(way)


def _input(
    graph: JobGraph, node: OperatorNode, port: int, carriers: set[OperatorId], numbers: dict[Edge, int]
) -> Input:
    """Return an input of a node, behind the shedder that has been added to ``graph`` if one belongs there."""
    edge = node.inputs[port]
    branch = (graph[edge.operator].name, node.name)
    number = numbers.get(branch)
    is_last = node.id not in carriers
    if edge.operator not in carriers or edge.output == DEAD_LETTER or (number is None and not is_last):
        return edge
    spec = BranchSpec(branch, number, is_last)
    name = branch_name(branch) if port == 0 else f"{branch_name(branch)}.{port}"
    outputs = dict(output_schemas(spec, [graph[edge.operator].outputs[edge.output]], name))
    shedder = OperatorNode(
        OperatorId(f"{node.id}.{port}.branch"), name, spec, (replace(edge, exchange=None),), outputs, where=node.where
    )
    graph.add(shedder)
    return Input(shedder.id, exchange=edge.exchange)
