"""Maximum flow along shortest augmenting paths, and the least cut that is left then; it knows no streams.

Flink-ER, 3.2 hands load out by it, and finds bottlenecks. Called by `operator_network`.
"""

from collections.abc import Iterable

TOLERANCE = 1e-9
"""Room that counts as none, as a share of the capacity of its edge."""


class ResidualNetwork:
    """A directed graph with a flow; vertices are numbers from 0, edges are numbered as they come.

    ``capacity`` is by edge. What an edge has room for is kept for both of its directions: c(u,v) - f(u,v) forwards, and
    the flow f(u,v), which can be taken back.
    """

    def __init__(self, vertices: int, edges: Iterable[tuple[int, int, float, float]]) -> None:
        """Begin with edges of a tail, a head, a capacity, and a flow.

        Raises:
            ValueError: a vertex is not there, or a flow is not in [0, capacity].
        """
        # Edge k is arc 2k forwards and arc 2k + 1 backwards.
        self.capacity, self._heads, self._room = list[float](), list[int](), list[float]()
        self._leaving: list[list[int]] = [[] for _ in range(vertices)]
        self._reached_by: list[int] = []
        leaving, arc = self._leaving, 0
        for tail, head, capacity, flow in edges:
            if not (0 <= tail < vertices and 0 <= head < vertices):
                raise ValueError(f"the edge {tail} -> {head} leaves the {vertices} vertices")
            if not 0 <= flow <= capacity:
                raise ValueError(f"the flow {flow} of edge {tail} -> {head} is not in [0, {capacity}]")
            self.capacity.append(capacity)
            self._heads += (head, tail)
            self._room += (capacity - flow, flow)
            leaving[tail].append(arc)
            leaving[head].append(arc + 1)
            arc += 2

    def flow(self, edge: int) -> float:
        """Return the flow in an edge."""
        return self._room[2 * edge + 1]

    def widen(self, edge: int, capacity: float) -> None:
        """Give an edge more capacity; its flow stays."""
        self._room[2 * edge] += capacity - self.capacity[edge]
        self.capacity[edge] = capacity

    def value(self, source: int) -> float:
        """Return the flow that leaves the source (Flink-ER, eq 1): f = sum of f(s, v), less what comes back."""
        return sum(self._room[arc ^ 1] if arc % 2 == 0 else -self._room[arc] for arc in self._leaving[source])

    def augment(self, source: int, sink: int) -> float:
        """Raise the flow along shortest paths until there is none, and return its value; it never falls.

        Flink-ER, eq 2: a path carries f_P = the least room on it, c(u,v) - f(u,v) forwards and f(v,u) backwards; eq 3:
        it is added forwards and taken off backwards, so the value grows by f_P.
        """
        room, heads = self._room, self._heads
        while self._search(source, sink):
            path, vertex = [], sink
            while vertex != source:
                path.append(arc := self._reached_by[vertex])
                vertex = heads[arc ^ 1]
            carried = min([room[arc] for arc in path])
            for arc in path:
                room[arc] -= carried
                room[arc ^ 1] += carried
        return self.value(source)

    def cut(self) -> list[int]:
        """Return the edges from what the last search reached to what it did not: once augmented, the least cut.

        Flink-ER, eq 4 and 5: the flow across it is the value, and so is its capacity.
        """
        by = self._reached_by
        return [
            arc // 2
            for tail, leaving in enumerate(self._leaving)
            if by[tail] != _UNREACHED
            for arc in leaving
            if arc % 2 == 0 and by[self._heads[arc]] == _UNREACHED
        ]

    def cut_capacity(self, cut: Iterable[int]) -> float:
        """Return c(X, Y), the capacities of edges together (Flink-ER, eq 4)."""
        return sum(self.capacity[edge] for edge in cut)

    def _search(self, source: int, sink: int) -> bool:
        """Search breadth first for a path with room, and note by which arc each vertex was reached."""
        room, heads, capacity, leaving = self._room, self._heads, self.capacity, self._leaving
        by = self._reached_by = [_UNREACHED] * len(leaving)
        by[source] = _SOURCE
        queue = [source]
        for vertex in queue:
            for arc in leaving[vertex]:
                other = heads[arc]
                if by[other] == _UNREACHED and room[arc] > TOLERANCE * capacity[arc >> 1]:
                    by[other] = arc
                    if other == sink:
                        return True
                    queue.append(other)
        return False


_UNREACHED, _SOURCE = -1, -2
