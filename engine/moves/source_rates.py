"""How many rows a job has read over time, so that the rate before a move and during it can be told. Pure."""

from collections import deque

LOOK_NS = 900_000_000
"""Counts that come sooner after the one before are not kept."""

KEPT_NS = 60_000_000_000
"""So far back counts are kept."""

SHORTEST_NS = 2_000_000_000
"""Over a shorter time no rate is told: counts come once a second."""


class SourceRates:
    """Counts of the rows that all sources have read, with their times."""

    def __init__(self) -> None:
        """Begin with none."""
        self._counts: deque[tuple[int, int]] = deque()

    def note(self, now_ns: int, rows: int) -> None:
        """Take in a count; one that is less than the one before is of another attempt."""
        counts = self._counts
        if counts and rows < counts[-1][1]:
            counts.clear()
        if counts and now_ns - counts[-1][0] < LOOK_NS:
            return
        counts.append((now_ns, rows))
        while counts[-1][0] - counts[0][0] > KEPT_NS and len(counts) > 2:
            counts.popleft()

    def rate(self, since_ns: int, until_ns: int) -> float | None:
        """Return the rows a second between the first and the last count of a span of time; None: it is too short."""
        inside = [count for count in self._counts if since_ns <= count[0] <= until_ns]
        if not inside or inside[-1][0] - inside[0][0] < SHORTEST_NS:
            return None
        return (inside[-1][1] - inside[0][1]) * 1e9 / (inside[-1][0] - inside[0][0])
