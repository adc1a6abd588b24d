"""What a sink knows of rows that were dropped by SIC: the head tells it once a second, and what comes tells it at once.

Rows bring the SIC of what was dropped before them (`Sic`), over chains, exchanges and states, so a result never leaves
without a word that a drop went into; what the head has counted of all instances is better, but comes later.
"""

from collections import deque
from collections.abc import Callable

from penstock.model.sic import SIC_WINDOW_S

_SECOND_NS = 1_000_000_000
_WINDOW_NS = int(SIC_WINDOW_S * _SECOND_NS)


class SinkLoss:
    """The share of the input of one query that was kept, as one instance of its sink knows it."""

    def __init__(self) -> None:
        """Begin with nothing dropped."""
        self._told = 1.0
        self._counted: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0)
        # Sums a second apart, over a window and a little more.
        self._before: deque[tuple[int, float, float]] = deque([(0, 0.0, 0.0)])
        self.is_told = False
        """Whether SIC is counted at all."""

    def hear(self, told: float, counted: Callable[[], tuple[float, float]]) -> None:
        """Take what the head says of all instances, in [0, 1], and what tells the SIC that has come and was dropped."""
        self._told, self._counted, self.is_told = told, counted, True

    def share(self, now_ns: int) -> float:
        """Return the share of the last 10 s: what the head says, or, before it knows of drops, what has come."""
        kept, lost = self._counted()
        while len(self._before) > 1 and self._before[1][0] <= now_ns - _WINDOW_NS:
            self._before.popleft()
        if now_ns - self._before[-1][0] >= _SECOND_NS:
            self._before.append((now_ns, kept, lost))
        if self._told < 1.0:
            return self._told
        _, kept_before, lost_before = self._before[0]
        dropped = lost - lost_before
        if dropped <= 0.0:
            return 1.0
        came = max(0.0, kept - kept_before)
        return came / (came + dropped)
