"""One plan built in parts: halves of channels whose other ends are in another part, joined by what carries elements."""

from collections import Counter, deque
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.core.clock import SystemClock
from penstock.engine.core.elements import Element
from penstock.engine.dataflow.build import Build, build
from penstock.engine.dataflow.instance_services import Halves, InstanceServices
from penstock.engine.dataflow.worker import Done, Ran, Worker
from penstock.engine.jobs.ledger import Ledger, add_ledgers, check_ledger, read_ledger
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.engine.transport.in_memory import join
from penstock.engine.transport.picked_rows import Picks
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import TaskId
from penstock.state.stores.memory_store import MemoryStore

Sent = tuple[Element, Picks | None, int, int]


class Parts:
    """Parts of a plan, instance i of a task in part i mod n, each with a loop; elements cross one at a time."""

    def __init__(self, graph: ExecutionGraph, count: int, folder: Path) -> None:
        self.under_way: deque[tuple[str, Sent]] = deque()
        self.crossing: dict[str, tuple[SendingHalf | None, ReceivingHalf | None]] = {}
        self.crossed = 0
        self._graph, self._count = graph, count
        self.builds = [self._build(part, folder / f"{part}") for part in range(count)]
        self.workers = [Worker(made.instances, SystemClock()) for made in self.builds]

    def _build(self, part: int, folder: Path) -> Build:
        def hosts(task: TaskId, index: int) -> bool:
            return index % self._count == part

        def channel(edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Halves:
            here = producer % self._count == part, receiver % self._count == part
            if all(here):
                both = join(name, capacity_bytes)
                return both.sender, both.receiver
            assert any(here), "a channel of which nothing is here"
            sender, inbound = self.crossing.get(name, (None, None))
            if here[0]:
                sender = SendingHalf(name, capacity_bytes, lambda *sent: self.under_way.append((name, sent)))
            else:
                inbound = ReceivingHalf(name)
                inbound.join(lambda size: self._credit(name, size))
            self.crossing[name] = sender, inbound
            return (sender, None) if here[0] else (None, inbound)

        services = InstanceServices(
            SystemClock(),
            lambda operator, instance, image: MemoryStore(operator, None, image),
            DeadLetterWriter(folder),
            channel=channel,
            hosts=hosts,
        )
        return build(self._graph, LoopOptions(channel_bytes=2_000, batch_rows=100), services)

    def _credit(self, name: str, size: int) -> None:
        sender, _ = self.crossing[name]
        assert sender is not None
        sender.add_credit(size)

    def run(self) -> None:
        ended: set[int] = set()
        while len(ended) < self._count or self.under_way:
            ran = False
            for number, worker in enumerate(self.workers):
                outcome = worker.step()
                ran |= isinstance(outcome, Ran)
                if isinstance(outcome, Done):
                    ended.add(number)
            if self.under_way:
                name, sent = self.under_way.popleft()
                _, receiver = self.crossing[name]
                assert receiver is not None
                receiver.accept(*sent)
                self.crossed += 1
            elif not ran and len(ended) < self._count:
                for worker in self.workers:
                    worker.wake()
        for made in self.builds:
            for operator in made.operators():
                operator.close()

    def ledger(self) -> Ledger:
        """Return the account of all parts together."""
        return add_ledgers(read_ledger(made) for made in self.builds)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_plan_in_parts_answers_as_a_whole_one(parts: int, parallelism: int, tmp_path: Path) -> None:
    dice = np.random.default_rng(7)
    keys, values = dice.integers(0, 50, 5_000), dice.integers(0, 1_000, 5_000)
    table = pa.table({"k": keys, "v": values, "t": pa.array(np.arange(5_000) * 1_000, pa.timestamp("us"))})
    job = ps.Job()
    rows = ps.read_memory(table, time="t", job=job)
    kept_rows = rows.filter(ps.col("v") > 100).key_by("k").window(ps.tumbling("1s"))
    sink = kept_rows.agg(n=ps.count(), v=ps.sum_("v")).collect()
    made = Parts(job.plan(parallelism), parts, tmp_path)
    made.run()
    kept = values > 100
    windows = np.arange(5_000) // 1_000
    expected = Counter(zip(windows[kept].tolist(), keys[kept].tolist(), strict=True))
    answer = sink.table().to_pylist()
    assert {(row["window_start"].second, row["k"]): row["n"] for row in answer} == expected
    assert sum(row["v"] for row in answer) == int(values[kept].sum())
    check_ledger(made.ledger(), ended=True)
    assert bool(made.crossed) == (min(parts, parallelism) > 1)
