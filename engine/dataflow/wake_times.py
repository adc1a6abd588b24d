"""Wake times of many instances; only those that are due are touched. For the worker loop."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

_SPARE = 64
"""How many entries that no longer count may be kept beside as many as do."""


class WakeTimes:
    """Times by key, of which the earliest is known at once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._due_ns: dict[int, int] = {}
        # Entries that differ from `_due_ns` no longer count.
        self._heap: list[tuple[int, int]] = []

    def set(self, key: int, due_ns: int | None) -> None:
        """Note when a key is due, in place of what was noted; None: never."""
        if due_ns is None:
            self._due_ns.pop(key, None)
        elif self._due_ns.get(key) != due_ns:
            self._due_ns[key] = due_ns
            heappush(self._heap, (due_ns, key))
            if len(self._heap) > 2 * len(self._due_ns) + _SPARE:
                self._heap = [(time_ns, other) for other, time_ns in self._due_ns.items()]
                heapify(self._heap)

    def take(self, now_ns: int) -> Sequence[int]:
        """Return the keys that are due, each once, and forget their times."""
        due: list[int] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            time_ns, key = heappop(heap)
            if self._due_ns.get(key) == time_ns:
                del self._due_ns[key]
                due.append(key)
        return due

    def next_ns(self) -> int | None:
        """Return the earliest time, None when there is none."""
        heap = self._heap
        while heap and self._due_ns.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None
