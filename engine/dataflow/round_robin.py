"""Turns of the instances that can run: deficit round robin over their shares of the core, and fair reading.

Kept by the worker loop. Nothing here depends on how many instances there are, only on how many can run.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum
from heapq import heappop, heappush, heapreplace

from penstock.engine.dataflow.instance import Instance

QUANTUM_NS = 2_000_000
"""What an instance of share 1.0 may use of the core before the next one has its turn."""

MOST_AHEAD_NS = 50_000_000
"""Who can read goes first once those with less than a full batch have used so much of the core since one did."""


class TurnStanding(Enum):
    """The order in which instances go: the first of these that there are any of, or whoever can read once it is time.

    Sources come behind those that have a full batch to work off, as what was just read is still near the core, and
    before those that have little to do, as they may be about to fill it.
    """

    EAGER = "eager"
    READING = "reading"
    PATIENT = "patient"


_IN_ROUNDS = (TurnStanding.EAGER, TurnStanding.PATIENT)


class Turns:
    """The instances that can run, by their standing.

    Of those that read, the one comes next that has used the core least for its share, by start-time fair queueing.
    What others do behind it is use of the one that read last: a source whose rows are dear where they are read, and
    one whose rows are dear behind it, get as much. Who had nothing to read meanwhile has no claim for that.
    """

    def __init__(self, shares: Mapping[str, float] | None = None) -> None:
        """``shares`` maps instance names to their weight, 1.0 when absent."""
        self._shares = dict(shares or {})
        self._standing: dict[int, TurnStanding] = {}
        # Whoever changes its standing leaves an entry behind, which is passed over when it comes to the front.
        self._queues: dict[TurnStanding, deque[Instance]] = {standing: deque() for standing in _IN_ROUNDS}
        self._queued: dict[TurnStanding, set[int]] = {standing: set() for standing in _IN_ROUNDS}
        self._deficit_ns: dict[int, int] = {}
        # Use of readers, for a share of 1.0; those that can read lie in the heap by what it was, or less.
        self._used_ns: dict[int, float] = {}
        self._readers: list[tuple[float, int, Instance]] = []
        self._in_heap: set[int] = set()
        self._pushed = 0
        self._began_ns = 0.0
        self._reader: Instance | None = None
        # What those with less than a full batch have used since one has read.
        self._ahead_ns = 0

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
        if standing is TurnStanding.READING:
            if key not in self._in_heap:
                self._used_ns[key] = max(self._used_ns.get(key, 0.0), self._began_ns)
                self._pushed += 1
                self._in_heap.add(key)
                heappush(self._readers, (self._used_ns[key], self._pushed, instance))
        elif key not in self._queued[standing]:
            self._queued[standing].add(key)
            self._queues[standing].append(instance)

    def forget(self, instance: Instance) -> None:
        """Let go of an instance for good."""
        key = id(instance)
        self._standing.pop(key, None)
        self._deficit_ns.pop(key, None)
        self._used_ns.pop(key, None)
        if key in self._in_heap:
            self._in_heap.discard(key)
            self._readers = sorted(entry for entry in self._readers if entry[2] is not instance)
        if self._reader is instance:
            self._reader = None
        for standing, queue in self._queues.items():
            if key in self._queued[standing]:
                self._queued[standing].discard(key)
                queue.remove(instance)

    def spend(self, instance: Instance, spent_ns: int, *, has_little: bool = False) -> None:
        """Take what an instance has used off what it may use, and what the last that read may.

        ``has_little``: it had less than a full batch to work off, be it that its timers were due or that signals came.
        """
        if self._standing.get(id(instance)) is TurnStanding.READING:
            self._reader, self._ahead_ns = instance, 0
        else:
            self._ahead_ns += spent_ns if has_little else 0
            self._deficit_ns[id(instance)] = self._deficit_ns.get(id(instance), 0) - spent_ns
        if self._reader is not None:
            key, share = id(self._reader), self._shares.get(self._reader.name, 1.0)
            self._used_ns[key] = self._used_ns.get(key, 0.0) + spent_ns / share

    def next(self) -> Instance | None:
        """Return whose turn it is, None when nobody can run."""
        if self._ahead_ns >= MOST_AHEAD_NS and (reader := self._least_used()) is not None:
            return reader
        for standing in TurnStanding:
            instance = self._least_used() if standing is TurnStanding.READING else self._first(standing)
            if instance is not None:
                return instance
        return None

    def _least_used(self) -> Instance | None:
        while self._readers:
            used_ns, number, instance = self._readers[0]
            key = id(instance)
            if self._standing.get(key) is not TurnStanding.READING:
                heappop(self._readers)
                self._in_heap.discard(key)
            elif self._used_ns[key] > used_ns:
                heapreplace(self._readers, (self._used_ns[key], number, instance))
            else:
                self._began_ns = used_ns
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
