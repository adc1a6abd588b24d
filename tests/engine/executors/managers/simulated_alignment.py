"""Task managers whose sources are aligned, in simulated time: speeds, delays of messages, idleness and loss in hand."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.dataflow.source_alignment import SourceAlignment
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.executors.managers.alignment import ProgressRelay, ProgressReports
from penstock.engine.executors.managers.messages import Progress
from penstock.model.ids import TaskId

TICK_MS = 5
MS = 1_000_000


@dataclass
class SimulatedSource:
    """A source that covers ``batch_us`` with each read and ``per_ms`` of event time in a millisecond, if it may.

    ``live``: its rows come at that rate and not before, so that it has a batch when one is full. It is idle between
    ``idle_ms``, and ends at ``end_ms``.
    """

    per_ms: int
    batch_us: int
    live: bool = False
    idle_ms: tuple[int, int] = (0, 0)
    ended: bool = False
    ordered: bool = True
    began_us: int = START_OF_TIME_US
    latest_us: int = START_OF_TIME_US
    free_ms: float = 0.0
    lag_ms: float = 0.0
    is_idle: bool = False
    end_ms: int | None = None

    @property
    def progress_us(self) -> int:
        return END_OF_TIME_US if self.is_idle else self.began_us

    def is_due(self, now_ms: int) -> bool:
        self.ended = self.end_ms is not None and now_ms >= self.end_ms
        self.is_idle = self.idle_ms[0] <= now_ms < self.idle_ms[1]
        if self.ended or self.is_idle or now_ms < self.free_ms:
            return False
        return not self.live or self._next_us() + self.batch_us <= now_ms * self.per_ms

    def read(self, now_ms: int) -> None:
        began_us = self._next_us()
        self.began_us, self.latest_us = began_us, began_us + self.batch_us
        self.free_ms = max(self.free_ms, now_ms - TICK_MS) + (0 if self.live else self.batch_us / self.per_ms)
        self.lag_ms = max(self.lag_ms, now_ms - self.latest_us / self.per_ms) if now_ms > 2_000 else 0

    def _next_us(self) -> int:
        return max(self.latest_us, 0)


@dataclass
class Manager:
    name: str
    sources: Sequence[SimulatedSource]
    delays_ms: Iterator[int]
    up: deque[tuple[int, Progress]] = field(default_factory=deque)
    down: deque[tuple[int, Progress]] = field(default_factory=deque)
    lost_ms: int | None = None

    def __post_init__(self) -> None:
        self.alignment = SourceAlignment()
        for source in self.sources:
            self.alignment.add(cast(SourceHead, source))
        self.reports = ProgressReports()
        self.reports.begin(1, {TaskId(0): self.alignment}, 0)

    def post(self, queue: deque[tuple[int, Progress]], progress: Progress, now_ms: int) -> None:
        """Messages arrive in their order, whatever each would take."""
        arrives_ms = now_ms + next(self.delays_ms)
        queue.append((max(arrives_ms, queue[-1][0] if queue else 0), progress))

    def is_lost(self, now_ms: int) -> bool:
        return self.lost_ms is not None and now_ms >= self.lost_ms

    def step(self, now_ms: int) -> None:
        while self.down and self.down[0][0] <= now_ms:
            self.reports.hear(self.down.popleft()[1], now_ms * MS)
        for source in self.sources:
            head = cast(SourceHead, source)
            while source.is_due(now_ms) and self.alignment.may_read(head):
                source.read(now_ms)
                self.alignment.settle(head)
            self.alignment.settle(head)
        report = self.reports.report(now_ms * MS)
        if report is not None:
            self.post(self.up, report, now_ms)

    def least_us(self) -> int:
        return min(END_OF_TIME_US if item.ended else item.progress_us for item in self.sources)


@dataclass
class Cluster:
    managers: Sequence[Manager]
    ahead_us: dict[str, int] = field(default_factory=dict)

    def run(self, until_ms: int, measure_from_ms: int = 0) -> None:
        """Run from 0; keep how far each was ahead of the least of the others at most, from ``measure_from_ms`` on."""
        relay = ProgressRelay()
        for now_ms in range(0, until_ms, TICK_MS):
            for manager in self.managers:
                if manager.is_lost(now_ms):
                    self.relay(relay.lose(manager.name), now_ms)
                    continue
                while manager.up and manager.up[0][0] <= now_ms:
                    self.relay(relay.hear(manager.name, manager.up.popleft()[1]), now_ms)
                manager.step(now_ms)
            if now_ms >= measure_from_ms:
                self.measure(now_ms)

    def relay(self, news: dict[str, Progress], now_ms: int) -> None:
        for manager in self.managers:
            if manager.name in news:
                manager.post(manager.down, news[manager.name], now_ms)

    def measure(self, now_ms: int) -> None:
        living = [item for item in self.managers if not item.is_lost(now_ms)]
        for manager in living:
            others_us = min((item.least_us() for item in living if item is not manager), default=END_OF_TIME_US)
            for source in manager.sources:
                if others_us != END_OF_TIME_US and source.began_us != START_OF_TIME_US and not source.is_idle:
                    ahead_us = source.began_us - max(others_us, 0)
                    self.ahead_us[manager.name] = max(self.ahead_us.get(manager.name, 0), ahead_us)
