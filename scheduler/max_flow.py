"""Maximum flow by shortest augmenting paths (Edmonds-Karp) and the minimum cut; it knows no streams.

Flink-ER, 3.2 uses it to distribute load and to find bottlenecks; called by `flow_network`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Floats

TOLERANCE = 1e-9
"""Capacity that counts as none, as a share of the largest."""


@dataclass(slots=True)
class FlowGraph:
    """A directed graph with capacities and a flow; vertices are numbers from 0.

    Edge k goes from ``tails[k]`` to ``heads[k]``. It is a bundle of parallel lanes, with 0 <= flow[k] <= capacity[k]
    in each, so that one path takes all of them; ``whole`` and ``carried`` are their sums.
    """

    vertices: int
    tails: list[int] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    capacity: list[Floats] = field(default_factory=list)
    flow: list[Floats] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    carried: list[float] = field(default_factory=list)

    def add(self, tail: int, head: int, capacity: Floats | float, flow: Floats | float = 0.0) -> int:
        """Add an edge and return its number; an array has a figure for each lane.

        Raises:
            ValueError: a vertex is not there, or the flow is not in [0, capacity].
        """
        if not (0 <= tail < self.vertices and 0 <= head < self.vertices):
            raise ValueError(f"the edge {tail} -> {head} leaves the {self.vertices} vertices")
        lanes = np.array(capacity, np.float64, ndmin=1)
        carried = np.zeros(len(lanes)) + flow
        if not ((carried >= 0) & (carried <= lanes)).all():
            raise ValueError(f"the flow {flow} of edge {tail} -> {head} is not in [0, {capacity}]")
        self.tails.append(tail)
        self.heads.append(head)
        self.capacity.append(lanes)
        self.flow.append(carried)
        self.whole.append(float(lanes.sum()))
        self.carried.append(float(carried.sum()))
        return len(self.tails) - 1

    def widen(self, edge: int, capacity: Floats) -> None:
        """Give an edge other capacities, which carry its flow."""
        self.capacity[edge], self.whole[edge] = capacity, float(capacity.sum())


def value(graph: FlowGraph, source: int) -> float:
    """Return the flow that leaves the source (Flink-ER, eq 1): f = sum of f(s, v), less what comes back."""
    out = sum(flow for tail, flow in zip(graph.tails, graph.carried, strict=True) if tail == source)
    return out - sum(flow for head, flow in zip(graph.heads, graph.carried, strict=True) if head == source)


def augment(graph: FlowGraph, source: int, sink: int) -> float:
    """Raise the flow along shortest paths until there is none, and return its value.

    Flink-ER, eq 2: a path carries f_P = the least residual capacity on it, c(u,v) - f(u,v) forwards and f(v,u)
    backwards; eq 3: it is added forwards and taken off backwards, so the value grows by f_P. In a bundle each lane
    takes its part in proportion to its residual capacity.
    """
    leaving, least, reached = _adjacency(graph), _least(graph), value(graph, source)
    while (path := _shortest(graph, leaving, source, sink, least)) is not None:
        carried = min(_residual(graph, edge, forwards) for edge, forwards in path)
        for edge, forwards in path:
            lanes = graph.capacity[edge] - graph.flow[edge] if forwards else -graph.flow[edge]
            graph.flow[edge] = graph.flow[edge] + lanes * min(carried / _residual(graph, edge, forwards), 1.0)
            graph.carried[edge] = float(graph.flow[edge].sum())
        reached += carried
    return reached


def reachable(graph: FlowGraph, source: int) -> set[int]:
    """Return the vertices reachable in the residual graph: the source's side of a minimum cut, if no path is left."""
    leaving, least = _adjacency(graph), _least(graph)
    reached, queue = {source}, deque([source])
    while queue:
        vertex = queue.popleft()
        for edge, forwards in leaving[vertex]:
            other = graph.heads[edge] if forwards else graph.tails[edge]
            if other not in reached and _residual(graph, edge, forwards) > least:
                reached.add(other)
                queue.append(other)
    return reached


def cut_edges(graph: FlowGraph, source_side: set[int]) -> list[int]:
    """Return the edges that leave one side; their capacities add up to that of the cut (Flink-ER, eq 4)."""
    return [
        edge
        for edge, (tail, head) in enumerate(zip(graph.tails, graph.heads, strict=True))
        if tail in source_side and head not in source_side
    ]


def cut_capacity(graph: FlowGraph, edges: Sequence[int]) -> float:
    """Return c(X, Y), the capacities of a cut's edges together (Flink-ER, eq 4)."""
    return sum(graph.whole[edge] for edge in edges)


def _least(graph: FlowGraph) -> float:
    return TOLERANCE * max(graph.whole, default=0.0)


def _adjacency(graph: FlowGraph) -> Sequence[list[tuple[int, bool]]]:
    leaving: list[list[tuple[int, bool]]] = [[] for _ in range(graph.vertices)]
    for edge, (tail, head) in enumerate(zip(graph.tails, graph.heads, strict=True)):
        leaving[tail].append((edge, True))
        leaving[head].append((edge, False))
    return leaving


def _residual(graph: FlowGraph, edge: int, forwards: bool) -> float:
    return graph.whole[edge] - graph.carried[edge] if forwards else graph.carried[edge]


def _shortest(
    graph: FlowGraph, leaving: Sequence[list[tuple[int, bool]]], source: int, sink: int, least: float
) -> list[tuple[int, bool]] | None:
    predecessor: dict[int, tuple[int, bool]] = {}
    queue = deque([source])
    while queue:
        vertex = queue.popleft()
        for edge, forwards in leaving[vertex]:
            other = graph.heads[edge] if forwards else graph.tails[edge]
            if other == source or other in predecessor or _residual(graph, edge, forwards) <= least:
                continue
            predecessor[other] = (edge, forwards)
            if other == sink:
                return _back(graph, predecessor, source, sink)
            queue.append(other)
    return None


def _back(graph: FlowGraph, predecessor: dict[int, tuple[int, bool]], source: int, sink: int) -> list[tuple[int, bool]]:
    path, vertex = [], sink
    while vertex != source:
        edge, forwards = predecessor[vertex]
        path.append((edge, forwards))
        vertex = graph.tails[edge] if forwards else graph.heads[edge]
    return path[::-1]
