"""Turns of the instances that can run: deficit round robin over their shares of the core.

Kept by the worker loop. Nothing here depends on how many instances there are, only on how many can run.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum

from penstock.engine.dataflow.instance import Instance

QUANTUM_NS = 2_000_000
"""What an instance of share 1.0 may use of the core before the next one has its turn."""


class TurnStanding(Enum):
    """The order in which instances go: the first of these that there are any of.

    Sources come behind those that have a full batch to work off, as what was just read is still near the core, and
    before those that have little to do, as they may be about to fill it.
    """

    EAGER = "eager"
    READING = "reading"
    PATIENT = "patient"


class Turns:
    """The instances that can run, by their standing."""

    def __init__(self, shares: Mapping[str, float] | None = None) -> None:
        """``shares`` maps instance names to their weight, 1.0 when absent."""
        self._shares = dict(shares or {})
        self._standing: dict[int, TurnStanding] = {}
        # Whoever changes its standing leaves an entry behind, which is passed over when it comes to the front.
        self._queues: dict[TurnStanding, deque[Instance]] = {standing: deque() for standing in TurnStanding}
        self._queued: dict[TurnStanding, set[int]] = {standing: set() for standing in TurnStanding}
        self._deficit_ns: dict[int, int] = {}

    def set_share(self, instance: str, share: float) -> None:
        """Grant an instance another share, above 0."""
        self._shares[instance] = share

    def place(self, instance: Instance, standing: TurnStanding | None) -> None:
        """Note the standing of an instance, None: it cannot run."""
        key = id(instance)
        if standing is None:
            self._standing.pop(key, None)
            return
        self._standing[key] = standing
        if key not in self._queued[standing]:
            self._queued[standing].add(key)
            self._queues[standing].append(instance)

    def forget(self, instance: Instance) -> None:
        """Let go of an instance for good."""
        key = id(instance)
        self._standing.pop(key, None)
        self._deficit_ns.pop(key, None)
        for standing, queue in self._queues.items():
            if key in self._queued[standing]:
                self._queued[standing].discard(key)
                queue.remove(instance)

    def spend(self, instance: Instance, spent_ns: int) -> None:
        """Take what an instance has used off what it may use."""
        self._deficit_ns[id(instance)] = self._deficit_ns.get(id(instance), 0) - spent_ns

    def next(self) -> Instance | None:
        """Return whose turn it is, None when nobody can run."""
        for standing in TurnStanding:
            instance = self._first(standing)
            if instance is not None:
                return instance
        return None

    def _first(self, standing: TurnStanding) -> Instance | None:
        queue = self._queues[standing]
        while queue:
            instance = queue[0]
            key = id(instance)
            if self._standing.get(key) is not standing:
                queue.popleft()
                self._queued[standing].discard(key)
                if key not in self._standing:
                    self._deficit_ns.pop(key, None)
                continue
            if self._deficit_ns.get(key, 0) > 0:
                return instance
            quantum_ns = max(1, int(QUANTUM_NS * self._shares.get(instance.name, 1.0)))
            self._deficit_ns[key] = self._deficit_ns.get(key, 0) + quantum_ns
            if self._deficit_ns[key] > 0 and len(queue) == 1:
                return instance
            queue.rotate(-1)
        return None
