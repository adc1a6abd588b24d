"""A flow through edges in series: its value, what it may grow by, and the least cut; it knows no streams.

The network of Flink-ER, 2.2 is such a series, as tasks stand one behind the other, and what is free is which lane of
an edge a row takes. There the one augmenting path is all edges, and a cut is one of them. Called by `flow_network`.
"""

from dataclasses import dataclass

TOLERANCE = 1e-9
"""Capacity that counts as none, as a share of the largest."""


@dataclass(slots=True)
class SeriesFlow:
    """Edges from the source to the sink with the capacity of each, and the flow, which is the same in all.

    ``value`` is that of the flow (Flink-ER, eq 1): f = sum of f(s, v), less what comes back, which is nothing here.
    """

    capacity: list[float]
    value: float

    def augment(self) -> float:
        """Raise the flow as far as it goes, and return its value; it never falls.

        Flink-ER, eq 2: a path carries f_P = the least residual capacity c(u,v) - f(u,v) on it; eq 3: it is added in
        all edges of the path, so the value grows by f_P.
        """
        room = min(self.capacity, default=self.value) - self.value
        if room > self._least():
            self.value += room
        return self.value

    def cut(self) -> int | None:
        """Return the edge of the least cut, the first that has no room left, None: all have some.

        Flink-ER, eq 4 and 5: its capacity is that of the cut, and the flow across it is the value.
        """
        least = self._least()
        return next((edge for edge, whole in enumerate(self.capacity) if whole - self.value <= least), None)

    def _least(self) -> float:
        return TOLERANCE * max(self.capacity, default=0.0)
