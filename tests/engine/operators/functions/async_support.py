"""`map_async` in a test's hands: a loop over one operator whose calls only the test answers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.engine.core.async_calls import Answer, Asked
from penstock.engine.core.contract import MAIN, Notes, Operator
from penstock.engine.core.elements import Batch, Element
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.dataflow.input_gate import GateInput, InputGate
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.worker import Outcome, Ran, Worker
from penstock.engine.operators.functions.async_function import LOG, AsyncFunction
from penstock.engine.transport.in_memory import join
from penstock.model.job_graph import AsyncFunctionSpec
from penstock.model.schema import StreamSchema
from penstock.state.store import StateStore
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import StoreImage
from tests.engine.loop import channel, forward
from tests.engine.restarts import part_of
from tests.engine.support import ManualClock, Rejected, open_operator

MS = 1_000_000
TIMEOUT_MS = 100
INPUT = pa.schema({"x": pa.int64()})


class HandCalls:
    """Calls that are answered by hand. Implements `AsyncCalls`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.open: dict[int, Any] = {}
        self.cancelled: dict[int, Any] = {}
        self.stopped = False
        self.most = 0
        self._answers: list[Answer] = []

    def submit(self, calls: Sequence[Asked]) -> None:
        assert not self.stopped
        for ticket, arguments in calls:
            assert ticket not in self.open and ticket not in self.cancelled
            self.open[ticket] = arguments[0]
        self.most = max(self.most, len(self.open))

    def cancel(self, tickets: Sequence[int]) -> None:
        for ticket in tickets:
            if ticket in self.open:
                self.cancelled[ticket] = self.open.pop(ticket)

    def ready(self) -> bool:
        return bool(self._answers)

    def completed(self) -> list[Answer]:
        answers, self._answers = self._answers, []
        return answers

    def stop(self) -> None:
        self.stopped = True

    def answer(self, ticket: int, error: str | None = None) -> None:
        """Answer the call of a row with its number and ten times that, or fail it; cancelled ones too."""
        number = self.open.pop(ticket) if ticket in self.open else self.cancelled.pop(ticket)
        self._answers.append((ticket, None if error else {"x": number, "tenfold": 10 * number}, error))
        self.wake()

    def answer_rows(self, *numbers: int, error: str | None = None) -> None:
        """Answer the open calls of these rows, in this order."""
        for number in numbers:
            self.answer(next(ticket for ticket, row in self.open.items() if row == number), error)


async def never_called(x: int) -> dict[str, int]:
    raise AssertionError(x)


class Asking:
    """One `map_async` between two channels."""

    def __init__(
        self,
        elements: Iterable[Element] = (),
        *,
        state: StateStore | None = None,
        restored: Sequence[Notes] = (),
        room_bytes: int = 1 << 20,
        **options: Any,
    ) -> None:
        self.clock = ManualClock()
        self.state = state or MemoryStore("op")
        output = pa.schema({"x": pa.int64(), "tenfold": pa.int64()})
        spec = AsyncFunctionSpec(never_called, output, ("x",), timeout_us=TIMEOUT_MS * 1_000, **options)
        self.operator = AsyncFunction(spec, StreamSchema(INPUT), "op")
        self.calls = HandCalls(lambda: self.worker.wake())
        context = open_operator(Operator(), clock=self.clock).context
        context = replace(context, state=self.state, restored=restored)
        self.operator.open(replace(context, async_calls=lambda function, wake: self.calls))
        self.inbound = channel(elements=elements)
        self.outbound = join("out", room_bytes)
        self.counters = self.operator.context.counters
        node = ChainNode("op", self.operator, self.counters, exchanged={MAIN: forward(self.outbound)})
        self.instance = Instance("op", 0, self.clock, root=node, gate=InputGate([GateInput(self.inbound.receiver, 0)]))
        self.worker = Worker([self.instance], self.clock)
        self.told: list[Any] = []

    @classmethod
    def after(cls, *before: "Asking", elements: Iterable[Element] = (), **options: Any) -> "Asking":
        """Go on with what these have in state and notes, as one."""
        image = StoreImage([part_of(one.state) for one in before])
        notes = [one.operator.notes() for one in before]
        return cls(elements, state=MemoryStore("op", image=image), restored=notes, **options)

    @property
    def rejected(self) -> Rejected:
        letters = self.operator.context.dead_letters
        assert isinstance(letters, Rejected)
        return letters

    @property
    def kept(self) -> list[int]:
        """The numbers of the rows in the log."""
        log = self.state.log(LOG, INPUT)
        return [row["x"] for row in log.take(log.live()).to_pylist()]

    def run(self) -> Outcome:
        """Step the loop until nothing can run; the ledger adds up all the way."""
        while isinstance(outcome := self.worker.step(), Ran):
            assert self.counters.balanced(), self.counters
        return outcome

    def feed(self, *elements: Element) -> "Asking":
        """Run after each of these has come."""
        for element in elements:
            self.inbound.sender.put(element)
            self.run()
        return self

    def take(self) -> None:
        """Take one element from the output: the numbers of a batch's rows, or a control element."""
        element = self.outbound.receiver.take()
        if isinstance(element, Batch):
            numbers = element.rows["x"].to_pylist()
            assert element.rows["tenfold"].to_pylist() == [10 * number for number in numbers]
            self.told += numbers
        else:
            self.told.append(element)

    def out(self) -> list[Any]:
        """Run, and return all that has left so far: numbers of rows and control elements."""
        self.run()
        while len(self.outbound.receiver):
            self.take()
            self.run()
        return self.told


def numbers(*values: int, keep: float = 1.0) -> Batch:
    return Batch(pa.record_batch({"x": pa.array(values, pa.int64())}), keep, ingest_ns=7)
