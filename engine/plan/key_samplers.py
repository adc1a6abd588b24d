"""Lets what needs all rows of a key drop rows by their keys. Pure; the planner does it when it has optimised.

The rates are decided at the source behind which an operator stands, so samplers have numbers there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from penstock.engine.operators.descriptor import Columns
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.shedding_points import branch_above, may_be_sampled, shedding_points
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
        spec, numbers = node.spec, dict[Edge, int]()
        for port in range(len(node.inputs)):
            edge = _edge(graph, node, port)
            if edge not in edges or not may_be_sampled(graph, node, port):
                continue
            if edge not in numbers:
                source = _source(graph, node, port)
                numbers[edge] = taken[source] = taken.get(source, -1) + 1
            spec = descriptor_of(spec).with_sampler(spec, port, numbers[edge])
        rebuilt.add(replace(node, spec=spec))
    return rebuilt


def sampled_edges(graph: JobGraph) -> frozenset[Edge]:
    """Return the edges of a plan before whose consumers rows may be dropped by their keys."""
    return frozenset(_edge(graph, node, port) for node, port, _ in _samplers(graph))


def key_samplers_behind(graph: JobGraph, source: OperatorId) -> tuple[str, ...]:
    """Return the names of the samplers of keys behind a source of a plan, by their numbers."""
    names: Mapping[int, str] = {
        number: branch_name(_edge(graph, node, port))
        for node, port, number in _samplers(graph)
        if _source(graph, node, port) == source
    }
    return tuple(names[number] for number in range(len(names)))


def sampled_operators(graph: JobGraph) -> list[tuple[OperatorId, str, Columns]]:
    """Return the operators of one input of a plan before which rows may be dropped by their keys.

    With each go the name of the branch that leads there, and the columns of its results that have the keys.
    """
    return [
        (
            node.id,
            branch_name(_edge(graph, node, port)),
            next(iter(descriptor_of(node.spec).key_columns(node.spec)), ()),
        )
        for node, port, _ in _samplers(graph)
        if len(node.inputs) == 1
    ]


def _samplers(graph: JobGraph) -> Iterator[tuple[OperatorNode, int, int]]:
    """Yield the inputs with samplers, by operator and port, with their numbers."""
    for node in graph.operators.values():
        for port in range(len(node.inputs)):
            number = descriptor_of(node.spec).sampler(node.spec, port)
            if number is not None:
                yield node, port, number


def _edge(graph: JobGraph, node: OperatorNode, port: int) -> Edge:
    """Return the edge that leads to an input, by the names without shedders between them."""
    return graph[branch_above(graph, node.inputs[port].operator)].name, node.name


def _source(graph: JobGraph, node: OperatorNode, port: int) -> OperatorId:
    """Return the source of a sampler, from which every operator up to there has one input."""
    above = graph[node.inputs[port].operator]
    while not isinstance(above.spec, SourceSpec):
        (edge,) = above.inputs
        above = graph[edge.operator]
    return above.id
