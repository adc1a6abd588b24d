"""A join whose sources run in two parts of a plan, one ten times as fast: what it keeps is little more than in one."""

from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.core.clock import ManualClock
from penstock.engine.core.elements import Element
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.builder import build
from penstock.engine.dataflow.instance_services import Halves, InstanceServices
from penstock.engine.dataflow.worker import Ran, Worker
from penstock.engine.executors.managers.alignment import ProgressRelay, ProgressReports
from penstock.engine.jobs.metrics import read_metrics
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.engine.transport.in_memory import join
from penstock.engine.transport.picked_rows import Picks
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import TaskId
from penstock.state.stores.memory_store import MemoryStore

ROWS = 200_000
STEP_NS = 10_000_000
"""The time of a step in the part of the slow source; in the other one it is a tenth of that."""


class Parts:
    """The fast source in part 0, all else in part 1 (or everything in part 1), each with a loop, on one clock."""

    def __init__(self, graph: ExecutionGraph, folder: Path, *, apart: bool) -> None:
        self.clock = ManualClock()
        self.state_bytes = 0
        self._graph, self._apart = graph, apart
        self._under_way: deque[tuple[ReceivingHalf, tuple[Element, Picks | None, int, int]]] = deque()
        self._inbound: dict[str, ReceivingHalf] = {}
        self._senders: dict[str, SendingHalf] = {}
        self._fast = next(task.id for task in graph.tasks if graph.name(task).startswith("fast"))
        self.builds = [self._build(part, folder / f"{part}") for part in (0, 1)]
        self.workers = [Worker(made.instances, self.clock) for made in self.builds]

    def _part(self, task: TaskId) -> int:
        return 0 if self._apart and task == self._fast else 1

    def _build(self, part: int, folder: Path) -> Build:
        def channel(edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Halves:
            sends = self._part(self._graph.task_of(edge.producer).id) == part
            receives = self._part(self._graph.task_of(edge.consumer).id) == part
            if sends and receives:
                both = join(name, capacity_bytes)
                return both.sender, both.receiver
            if sends:
                self._senders[name] = SendingHalf(
                    name, capacity_bytes, lambda *sent: self._under_way.append((self._inbound[name], sent))
                )
                return self._senders[name], None
            self._inbound[name] = ReceivingHalf(name)
            self._inbound[name].join(lambda size: self._senders[name].add_credit(size))
            return None, self._inbound[name]

        services = InstanceServices(
            self.clock,
            lambda operator, instance, image: MemoryStore(operator, None, image),
            DeadLetterWriter(folder),
            channel=channel,
            hosts=lambda task, index: self._part(task) == part,
        )
        return build(self._graph, LoopOptions(channel_bytes=1 << 24, batch_rows=1_000), services)

    def run(self, align: Callable[["Parts"], None]) -> None:
        free_ns = [0, 0]
        while any(not instance.done for made in self.builds for instance in made.instances):
            now_ns = self.clock.monotonic_ns()
            for part, worker in enumerate(self.workers):
                while free_ns[part] <= now_ns and isinstance(worker.step(), Ran):
                    free_ns[part] = max(free_ns[part], now_ns - STEP_NS) + STEP_NS // (10 if part == 0 else 1)
            while self._under_way:
                receiver, sent = self._under_way.popleft()
                receiver.accept(*sent)
            align(self)
            self.clock.advance_ns(STEP_NS)
            read = [read_metrics("test", made, 0, now_ns, 0, None) for made in self.builds]
            self.state_bytes = max(self.state_bytes, sum(item.state_bytes for item in read))
        for made in self.builds:
            for operator in made.operators():
                operator.close()


class Aligned:
    """Both halves of the alignment, with messages that take no longer than a step."""

    def __init__(self, parts: Parts) -> None:
        self.relay = ProgressRelay()
        self.reports = [ProgressReports(), ProgressReports()]
        for reports, made in zip(self.reports, parts.builds, strict=True):
            reports.begin(1, made.alignments, parts.clock.monotonic_ns())

    def __call__(self, parts: Parts) -> None:
        now_ns = parts.clock.monotonic_ns()
        for part, reports in enumerate(self.reports):
            progress = reports.report(now_ns)
            if progress is None:
                continue
            for to, news in self.relay.hear(f"{part}", progress).items():
                parts.workers[int(to)].touch_sources(self.reports[int(to)].hear(news, now_ns))


def joined() -> tuple[ExecutionGraph, MemorySink]:
    """Each source has a row every millisecond of event time; a pair is of rows at most 2 s apart."""
    times = pa.array(np.arange(ROWS) * 1_000, pa.timestamp("us"))
    keys = pa.array(np.arange(ROWS) % 500)
    job = ps.Job()
    fast = ps.read_memory(pa.table({"k": keys, "t": times}), time="t", job=job).name("fast")
    slow = ps.read_memory(pa.table({"k": keys, "t": times}), time="t", job=job).name("slow")
    sink = fast.interval_join(slow, on="k", between=("-2s", "2s")).collect()
    return job.plan(1), sink


def test_a_join_keeps_little_more_than_in_one_process(tmp_path: Path) -> None:
    kept, rows = {}, {}
    for name, apart in [("together", False), ("apart", True), ("unaligned", True)]:
        graph, sink = joined()
        parts = Parts(graph, tmp_path / name, apart=apart)
        parts.run(Aligned(parts) if name == "apart" else lambda parts: None)
        kept[name], rows[name] = parts.state_bytes, sink.table().num_rows
    assert rows["together"] == rows["apart"] == rows["unaligned"]
    assert kept["apart"] <= 2 * kept["together"], kept
    assert kept["unaligned"] > 2 * kept["together"], kept
