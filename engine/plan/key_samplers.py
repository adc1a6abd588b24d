"""Lets what needs all rows of a key drop rows by their keys. Pure; the planner does it when it has optimised.

The rates are decided at the source behind which an operator stands, so samplers have numbers there.
"""

from collections.abc import Mapping
from dataclasses import replace

from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.shedding_points import branch_above, shedding_points
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, OperatorNode, SourceSpec
from penstock.model.keep_rates import Edge, branch_name


def with_key_samplers(graph: JobGraph) -> JobGraph:
    """Return the graph whose operators drop rows by their keys where they may; the same graph if none may.

    Sources that end by themselves are looked at, too.
    """
    edges = shedding_points(graph, bounded=True).keyed
    if not edges:
        return graph
    rebuilt, taken = JobGraph(), dict[OperatorId, int]()
    for node in graph.operators.values():
        added = node
        if node.inputs and _edge(graph, node) in edges:
            source = _source(graph, node)
            number = taken[source] = taken.get(source, -1) + 1
            added = replace(node, spec=descriptor_of(node.spec).with_sampler(node.spec, number))
        rebuilt.add(added)
    return rebuilt


def sampled_edges(graph: JobGraph) -> frozenset[Edge]:
    """Return the edges of a plan before whose consumers rows may be dropped by their keys."""
    return frozenset(_edge(graph, node) for node in _samplers(graph))


def key_samplers_behind(graph: JobGraph, source: OperatorId) -> tuple[str, ...]:
    """Return the names of the samplers of keys behind a source of a plan, by their numbers."""
    names: Mapping[int | None, str] = {
        descriptor_of(node.spec).sampler(node.spec): branch_name(_edge(graph, node))
        for node in _samplers(graph)
        if _source(graph, node) == source
    }
    return tuple(names[number] for number in range(len(names)))


def _samplers(graph: JobGraph) -> list[OperatorNode]:
    return [node for node in graph.operators.values() if descriptor_of(node.spec).sampler(node.spec) is not None]


def _edge(graph: JobGraph, node: OperatorNode) -> Edge:
    """Return the edge that leads to an operator, by the names without shedders between them."""
    return graph[branch_above(graph, node.inputs[0].operator)].name, node.name


def _source(graph: JobGraph, node: OperatorNode) -> OperatorId:
    """Return the source of a sampler, above which every operator has one input."""
    while not isinstance(node.spec, SourceSpec):
        (edge,) = node.inputs
        node = graph[edge.operator]
    return node.id
