"""A plan built in parts, each with a loop of its own; what crosses between them is carried one element at a time."""

from collections import deque
from collections.abc import Callable
from pathlib import Path

from penstock.engine.connectors.dead_letter import DeadLetterWriter, OnBadRecord
from penstock.engine.core.clock import SystemClock
from penstock.engine.core.elements import Element
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.builder import build
from penstock.engine.dataflow.instance_services import Halves, InstanceServices
from penstock.engine.dataflow.worker import Done, Ran, Worker
from penstock.engine.jobs.ledger import Ledger, add_ledgers, read_ledger
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.engine.transport.in_memory import join
from penstock.engine.transport.picked_rows import Picks
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import TaskId
from penstock.state.stores.memory_store import MemoryStore

Place = Callable[[TaskId, int], int]
"""Returns the number of the part that has an instance of a task."""

Sent = tuple[Element, Picks | None, int, int]


class Parts:
    """Parts of a plan, instance i of a task in part i mod n unless ``place`` says otherwise."""

    def __init__(
        self,
        graph: ExecutionGraph,
        count: int,
        folder: Path,
        place: Place | None = None,
        *,
        keeps: bool = False,
        on_first: OnBadRecord | None = None,
    ) -> None:
        self.sent, self.received = [0] * count, [0] * count
        self._folder, self._keeps, self._on_first = folder, keeps, on_first
        self.under_way: deque[tuple[str, Sent]] = deque()
        self.crossing: dict[str, tuple[SendingHalf | None, ReceivingHalf | None]] = {}
        self.crossed = 0
        self._letters: list[DeadLetterWriter] = []
        self._receiving: dict[str, int] = {}
        self._graph, self._count = graph, count
        self._place = place or (lambda task, index: index % count)
        self._ended: set[int] = set()
        self.builds = [self._build(part, folder / f"{part}") for part in range(count)]
        self.workers = [Worker(made.instances, SystemClock()) for made in self.builds]

    def _build(self, part: int, folder: Path) -> Build:
        def hosts(task: TaskId, index: int) -> bool:
            return self._place(task, index) == part

        def channel(edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Halves:
            producers, receivers = self._graph.task_of(edge.producer).id, self._graph.task_of(edge.consumer).id
            here = hosts(producers, producer), hosts(receivers, receiver)
            if all(here):
                both = join(name, capacity_bytes)
                return both.sender, both.receiver
            assert any(here), "a channel of which nothing is here"
            sender, inbound = self.crossing.get(name, (None, None))
            if here[0]:
                sender = SendingHalf(name, capacity_bytes, lambda *sent: self._send(part, name, sent))
            else:
                inbound = ReceivingHalf(name)
                self._receiving[name] = part
                inbound.join(lambda size: self._credit(name, size))
            self.crossing[name] = sender, inbound
            return (sender, None) if here[0] else (None, inbound)

        letters = DeadLetterWriter(folder, on_first=self._on_first)
        self._letters.append(letters)
        services = InstanceServices(
            SystemClock(),
            lambda operator, instance, image: MemoryStore(operator, None, image),
            letters,
            channel=channel,
            hosts=hosts,
            keeps=self._keeps,
        )
        return build(self._graph, LoopOptions(channel_bytes=2_000, batch_rows=100), services)

    def _credit(self, name: str, size: int) -> None:
        sender, _ = self.crossing[name]
        assert sender is not None
        sender.add_credit(size)

    def run(self) -> None:
        while not self.turn():
            pass
        for made in self.builds:
            for operator in made.operators():
                operator.close()
        self._close_letters()

    def turn(self) -> bool:
        """Step every part once and carry one element; return whether everything has ended."""
        if len(self._ended) == self._count and not self.under_way:
            return True
        ran = False
        for number, worker in enumerate(self.workers):
            outcome = worker.step()
            ran |= isinstance(outcome, Ran)
            if isinstance(outcome, Done):
                self._ended.add(number)
        if self.under_way:
            self.carry()
        elif not ran and len(self._ended) < self._count:
            for worker in self.workers:
                worker.wake()
        return False

    def carry(self) -> None:
        """Bring the oldest element under way to where it is meant for."""
        name, sent = self.under_way.popleft()
        _, receiver = self.crossing[name]
        assert receiver is not None
        receiver.accept(*sent)
        self.received[self._receiving[name]] += 1
        self.crossed += 1

    def _send(self, part: int, name: str, sent: Sent) -> None:
        self.sent[part] += 1
        self.under_way.append((name, sent))

    def close(self) -> None:
        """Abort all operators."""
        for made in self.builds:
            for operator in made.operators():
                operator.abort()
        self._close_letters()

    def _close_letters(self) -> None:
        for letters in self._letters:
            letters.close()

    def whole(self) -> Build:
        """Return one build of all that is in the parts, in the order of one that was built in one place."""
        services = InstanceServices(
            SystemClock(),
            lambda operator, instance, image: MemoryStore(operator, None, image),
            DeadLetterWriter(self._folder),
        )
        whole = build(self._graph, LoopOptions(), services)
        for operator in whole.operators():
            operator.abort()
        for task in whole.tasks:
            members = [instance for made in self.builds for instance in made.tasks[task]]
            whole.tasks[task] = sorted(members, key=lambda instance: instance.index)
        for edge in whole.senders:
            whole.senders[edge] = {pair: half for made in self.builds for pair, half in made.senders[edge].items()}
            whole.receivers[edge] = {pair: half for made in self.builds for pair, half in made.receivers[edge].items()}
        for operator in whole.counters:
            whole.counters[operator] = [item for made in self.builds for item in made.counters.get(operator, [])]
        for operator in whole.stores:
            whole.stores[operator] = [item for made in self.builds for item in made.stores.get(operator, [])]
        return whole

    def ledger(self) -> Ledger:
        """Return the account of all parts together."""
        return add_ledgers(read_ledger(made) for made in self.builds)
