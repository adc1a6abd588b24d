"""All orders of barrier and marker on two producers and two consumers: the marker wins, and nobody waits for ever."""

from collections.abc import Iterator, Sequence
from itertools import product

import pyarrow as pa
import pytest

from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.events import (
    AbortEpoch,
    AlignmentFailed,
    Command,
    InstanceSnapshotted,
    Started,
    StartUpload,
    Tick,
)
from penstock.engine.checkpoint.states import CheckpointState
from penstock.engine.core.contract import Operator
from penstock.engine.core.elements import Barrier, Batch, CancelBarrier, Element, Reroute
from penstock.engine.dataflow.checkpoint_port import InstanceReport
from penstock.engine.dataflow.cut import InstanceCut
from penstock.engine.dataflow.instance import Instance, Participation
from penstock.engine.transport.in_memory import Channel, join
from penstock.model.config import CheckpointOptions
from penstock.model.ids import TaskId
from tests.engine.loop import forward, instance
from tests.engine.support import ManualClock

MOVE = Reroute(1, TaskId(0), ((0, 0, 1),))
BARRIER = Barrier(1)
ORDERS = [(BARRIER, MOVE), (MOVE, BARRIER)]
TURNS = [(0, 0, 0, 0, 1, 1, 1, 1), (1, 1, 1, 1, 0, 0, 0, 0), (0, 1, 0, 1, 1, 0, 1, 0)]
"""How the consumers come to step; what they send goes to the sink by channels of their own."""

NAMES = frozenset({"one[0]", "two[0]", "keyed[0]", "keyed[1]", "sink[0]"})


class Seen(Operator):
    """Passes rows on and notes what came by, in order: rows by their producer and place."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int] | Element] = []

    def process(self, port: int, batch: Batch) -> Iterator[tuple[str, Batch]]:
        self.seen += [(row["producer"], row["place"]) for row in batch.rows.to_pylist()]
        yield "main", batch

    def on_barrier(self, epoch: int) -> Sequence[tuple[str, Batch]]:
        self.seen.append(Barrier(epoch))
        return ()

    def on_reroute(self, reroute: Reroute) -> Sequence[tuple[str, Batch]]:
        self.seen.append(reroute)
        return super().on_reroute(reroute)


def rows(producer: int, place: int) -> Batch:
    return Batch(pa.record_batch({"producer": [producer], "place": [place]}))


def sequences(counts: tuple[int, int]) -> Iterator[tuple[int, ...]]:
    """Every order in which so many things of the first and of the second can happen."""
    if not any(counts):
        yield ()
    for index in (0, 1):
        if counts[index]:
            fewer = (counts[0] - (index == 0), counts[1] - (index == 1))
            for rest in sequences(fewer):
                yield (index, *rest)


class Job:
    """Producers one and two, whose elements a test lets arrive, two consumers, and a sink behind both."""

    def __init__(self) -> None:
        clock = ManualClock()
        options = CheckpointOptions(interval_ms=1, directory="somewhere")
        self.coordinator = CheckpointCoordinator(options)
        self.commands: list[Command] = []
        self.on(Started(0, 1, NAMES, frozenset({"one[0]", "two[0]"})))
        self.on(Tick(1_000_000))
        self.channels = [[join(f"{one} -> {two}", 1 << 20) for two in range(2)] for one in range(2)]
        self.behind = [join(f"{one} -> sink", 1 << 20) for one in range(2)]
        self.operators = [Seen(), Seen(), Seen()]
        taking = Participation(self.report, 0)
        self.keyed = [
            self._instance("keyed", clock, taking, index, [pair[index] for pair in self.channels]) for index in range(2)
        ]
        self.sink = instance("sink", self.operators[2], clock, self.behind, participation=taking)

    def _instance(
        self, name: str, clock: ManualClock, taking: Participation, index: int, inputs: list[Channel]
    ) -> Instance:
        outputs = forward(self.behind[index])
        return instance(name, self.operators[index], clock, inputs, outputs, taking, index, (0, 1))

    def on(self, event: object) -> None:
        self.commands += self.coordinator.on(event)  # type: ignore[arg-type]

    def report(self, report: InstanceReport) -> None:
        if isinstance(report, InstanceCut):
            self.on(InstanceSnapshotted(report.instance, 1, report.epoch))
        else:
            self.on(AlignmentFailed(report.instance, 1, report.epoch))

    def send(self, consumer: int, producer: int, place: int, element: Element) -> None:
        """Let rows arrive, and an element behind them."""
        sender = self.channels[producer][consumer].sender
        sender.put(rows(producer, place))
        sender.put(element)
        self.run(self.keyed[consumer])

    def run(self, one: Instance) -> None:
        assert one.gate is not None
        while one.gate.has_input():
            one.step()


@pytest.mark.parametrize("orders", list(product(ORDERS, repeat=2)), ids=["BM,BM", "BM,MB", "MB,BM", "MB,MB"])
def test_the_marker_wins_in_every_order(orders: tuple[tuple[Element, ...], ...]) -> None:
    cases = 0
    for first, second in product(sequences((2, 2)), repeat=2):
        for turns in TURNS:
            run(orders, (first, second), turns)
            cases += 1
    assert cases == 36 * 3


def run(
    orders: tuple[tuple[Element, ...], ...],
    arrivals: tuple[tuple[int, ...], ...],
    turns: tuple[int, ...],
) -> None:
    """Let elements of the producers arrive at each consumer in its order, the consumers in turns."""
    job = Job()
    for producer in ("one[0]", "two[0]"):
        job.on(InstanceSnapshotted(producer, 1, 1))
    placed = [[0, 0], [0, 0]]
    for consumer in turns:
        producer = arrivals[consumer][sum(placed[consumer])]
        place = placed[consumer][producer]
        job.send(consumer, producer, place, orders[producer][place])
        placed[consumer][producer] += 1
        job.run(job.sink)
    for consumer, producer in product(range(2), repeat=2):
        job.channels[producer][consumer].sender.put(rows(producer, 2))
        job.run(job.keyed[consumer])
    job.run(job.sink)
    together = orders[0] == orders[1]
    everything = {(producer, place) for producer in range(2) for place in range(3)}
    for operator in job.operators[:2]:
        check_cut(operator, MOVE, [order.index(MOVE) for order in orders])
        assert operator.seen.count(BARRIER) == together
        if together:
            check_cut(operator, BARRIER, [order.index(BARRIER) for order in orders])
        assert {item for item in operator.seen if isinstance(item, tuple)} == everything, "rows wait for ever"
    assert [item for item in job.operators[2].seen if isinstance(item, Barrier)] == [BARRIER] * together
    assert sum(isinstance(item, tuple) for item in job.operators[2].seen) == 12, "rows wait for ever in the sink"
    assert not any(isinstance(item, Reroute) for item in job.operators[2].seen)
    ends = [item for item in job.commands if isinstance(item, AbortEpoch | StartUpload)]
    assert [type(item) for item in ends] == [StartUpload if together else AbortEpoch]
    assert job.coordinator.state is (CheckpointState.UPLOADING if together else CheckpointState.READY)


def check_cut(operator: Seen, element: Element, places: Sequence[int]) -> None:
    """Rows before an element on their channel are before it, all others behind."""
    assert operator.seen.count(element) == 1
    before = {item for item in operator.seen[: operator.seen.index(element)] if isinstance(item, tuple)}
    assert before == {(producer, place) for producer, last in enumerate(places) for place in range(last + 1)}


def test_who_waits_for_a_barrier_that_is_cancelled_reads_on_and_says_so_behind_it() -> None:
    job = Job()
    job.behind[0].sender.put(BARRIER)
    job.behind[0].sender.put(rows(0, 0))
    job.run(job.sink)
    assert job.operators[2].seen == []
    job.behind[1].sender.put(CancelBarrier(1))
    job.run(job.sink)
    assert job.operators[2].seen == [(0, 0)]
    assert [type(item) for item in job.commands[-1:]] == [AbortEpoch]


def test_others_let_the_marker_pass_and_go_on_reading() -> None:
    clock = ManualClock()
    one, two = join("one", 1 << 20), join("two", 1 << 20)
    seen = Seen()
    third = instance("keyed", seen, clock, [one, two], index=2, key_groups=(0, 1, 2))
    for element in (rows(0, 0), MOVE, rows(0, 1), BARRIER, rows(0, 2)):
        one.sender.put(element)
    assert third.gate is not None
    while third.gate.has_input():
        third.step()
    assert seen.seen == [(0, 0), (0, 1)], "a marker holds rows up, or a barrier does not"
    for element in (BARRIER, rows(1, 0), MOVE, rows(1, 1)):
        two.sender.put(element)
    while third.gate.has_input():
        third.step()
    assert seen.seen[2] == BARRIER
    assert sorted(map(str, seen.seen[3:])) == sorted(map(str, [(0, 2), (1, 0), MOVE, (1, 1)]))
    assert list(third.nodes[0].operator.context.key_groups) == [1, 1, 2]
