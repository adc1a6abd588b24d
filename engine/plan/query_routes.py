"""Which queries each edge of a plan leads to, by their numbers. Pure."""

from collections.abc import Sequence

import numpy as np

from penstock.model.columns import Bools
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, SinkSpec


def query_names(graph: JobGraph) -> tuple[str, ...]:
    """Return the names of the queries of a plan, which are those of its sinks, by their numbers."""
    return tuple(node.name for node in graph.operators.values() if isinstance(node.spec, SinkSpec))


class QueryRoutes:
    """The queries behind operators and edges of one plan."""

    def __init__(self, graph: ExecutionGraph) -> None:
        """Look at each operator once."""
        self._graph = graph
        self._number = {name: number for number, name in enumerate(query_names(graph.graph))}
        self._behind: dict[OperatorId, Bools] = {}

    def behind(self, operator: OperatorId) -> Bools:
        """Return which queries an operator leads to; a sink leads to its own."""
        if operator not in self._behind:
            node = self._graph.node(operator)
            reached = np.zeros(len(self._number), np.bool_)
            if node.name in self._number:
                reached[self._number[node.name]] = True
            for edge in self._graph.outgoing(operator):
                reached |= self.behind(edge.consumer)
            self._behind[operator] = reached
        return self._behind[operator]

    def of_outputs(self, operator: OperatorId) -> dict[str, Sequence[Bools]]:
        """Return the queries behind each edge of each output: edges in a chain first, as a chain sends."""
        routes: dict[str, list[Bools]] = {}
        for chained in (True, False):
            for edge in self._graph.outgoing(operator):
                if edge.chained is chained:
                    routes.setdefault(edge.output, []).append(self.behind(edge.consumer))
        return {name: tuple(edges) for name, edges in routes.items()}
