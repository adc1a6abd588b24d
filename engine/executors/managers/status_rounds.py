"""Rounds in which all task managers say how what they host is doing: what one alone cannot know of a job. Pure."""

from collections.abc import Collection

from penstock.engine.jobs.part_status import PartStatus, is_at_rest, merge_statuses
from penstock.model.execution_graph import ExecutionGraph

ROUND_NS = 100_000_000
"""How long after one round the next begins."""


class StatusRounds:
    """One round after the other; what is said for an earlier one is passed over."""

    def __init__(self, graph: ExecutionGraph) -> None:
        """Begin without a round."""
        self.graph = graph
        self._number = 0
        self._waiting: set[str] = set()
        self._parts: list[PartStatus] = []
        self._due_ns = 0
        self._earlier: PartStatus | None = None
        self._later: PartStatus | None = None

    @property
    def due_ns(self) -> int | None:
        """When the next round is to begin; None: once the one under way is over."""
        return None if self._waiting else self._due_ns

    @property
    def latest(self) -> PartStatus | None:
        """What all have said in the last round that is over; None: none is."""
        return self._later

    def begin(self, managers: Collection[str]) -> int:
        """Begin a round of these task managers; return its number."""
        self._number += 1
        self._waiting, self._parts = set(managers), []
        return self._number

    def add(self, manager: str, number: int, status: PartStatus, now_ns: int) -> bool:
        """Take in what one says; return whether all have said theirs now."""
        if number != self._number or manager not in self._waiting:
            return False
        self._waiting.remove(manager)
        self._parts.append(status)
        if self._waiting:
            return False
        self._earlier, self._later = self._later, merge_statuses(self.graph, self._parts)
        self._due_ns = now_ns + ROUND_NS
        return True

    def forget(self) -> None:
        """Pass over what was said: instances have come or gone."""
        self._number += 1
        self._waiting, self._parts = set(), []
        self._earlier = self._later = None

    def at_rest(self) -> bool:
        """Return whether nothing can happen any more without the outside: no rows to read, on their way or awaited."""
        return self._earlier is not None and self._later is not None and is_at_rest(self._earlier, self._later)
