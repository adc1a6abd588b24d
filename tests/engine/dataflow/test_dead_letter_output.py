"""Dead letters as a stream, inside a task: their place among rows and control elements, back-pressure, headers."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.core.contract import MAIN, Emission, Operator, OperatorContext
from penstock.engine.core.elements import Barrier, Batch, Element, EndOfStream, Watermark
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.dataflow.dead_letter_output import DeadLetterOutput
from penstock.engine.dataflow.input_gate import GateInput, InputGate
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.engine.dataflow.worker import Worker
from penstock.engine.transport.in_memory import Channel
from penstock.model.connectors import RawRecord, Read
from penstock.model.dead_letters import DEAD_LETTER, LETTER_FIELDS
from penstock.model.errors import BadRecordError
from penstock.model.schema import TimeColumn
from tests.engine.dataflow.test_worker import run
from tests.engine.loop import channel, forward
from tests.engine.scripted import MS, Scripts, rows
from tests.engine.support import ManualClock, open_operator


class Picky(Operator):
    """Rejects odd numbers at once, and before the next control element those of the even ones that 3 divides."""

    def __init__(self) -> None:
        self.kept: list[int] = []

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        numbers = batch.rows["x"]
        even = pc.equal(pc.bit_wise_and(numbers, 1), 0)
        self._reject(batch.rows.filter(pc.invert(even)))
        self.kept += numbers.filter(even).to_pylist()
        yield MAIN, batch.with_rows(batch.rows.filter(even))

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        return self._settle()

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        return self._settle()

    def on_end(self) -> Iterable[Emission]:
        return self._settle()

    def has_pending(self) -> bool:
        return False

    def _settle(self) -> Iterable[Emission]:
        thirds = [number for number in self.kept if number % 3 == 0]
        self.kept = []
        self._reject(pa.record_batch({"x": pa.array(thirds, pa.int64())}))
        yield from ()

    def _reject(self, bad: pa.RecordBatch) -> None:
        self.context.dead_letters.reject(self.context.name, bad, ["bad"] * bad.num_rows)


def numbers(*values: int, keep: float = 1.0) -> Batch:
    return Batch(pa.record_batch({"x": pa.array(values, pa.int64())}), keep, ingest_ns=7)


def picky(
    inputs: Iterable[Element], good: Channel, bad: Channel, batch_rows: int = 100, policy: str = "dead_letter"
) -> Worker:
    """Return a loop over one `Picky` whose rows and letters go to two channels."""
    clock = ManualClock()
    letters = DeadLetterOutput(DeadLetterWriter(Path("unused"), {"op": policy}), clock, batch_rows)
    operator = open_operator(Picky(), clock=clock)
    context = {name: getattr(operator.context, name) for name in OperatorContext.__dataclass_fields__}
    operator.open(OperatorContext(**{**context, "dead_letters": letters}))
    exchanged = {MAIN: forward(good), DEAD_LETTER: forward(bad)}
    node = ChainNode("op", operator, operator.context.counters, exchanged=exchanged, letters=letters)
    gate = InputGate([GateInput(channel(elements=inputs).receiver, 0)])
    return Worker([Instance("op", 0, clock, root=node, gate=gate)], clock)


def told(outbound: Channel) -> list[object]:
    """Return the texts of letters, or numbers, and the names of control elements."""
    found: list[object] = []
    while len(outbound.receiver):
        item = outbound.receiver.take()
        if not isinstance(item, Batch):
            found.append(type(item).__name__)
        elif "x" in item.rows.schema.names:
            found.append(item.rows["x"].to_pylist())
        else:
            assert item.rows.schema == LETTER_FIELDS
            found.append([text.removeprefix('{"x":').removesuffix("}") for text in item.rows["text"].to_pylist()])
    return found


def test_letters_leave_before_the_control_element_after_them() -> None:
    good, bad = channel(), channel()
    inputs: list[Element] = [
        numbers(1, 2),
        Watermark(5),
        numbers(6, 7),
        Barrier(1),
        numbers(12),
        Watermark(9),
        numbers(0),
    ]
    run(picky([*inputs, EndOfStream()], good, bad))
    assert told(good) == [
        [2], "Watermark", [6], "Barrier", [12], "Watermark", [0], "Watermark", "EndOfStream",
    ]  # fmt: skip
    assert told(bad) == [
        ["1"], "Watermark", ["7"], ["6"], "Barrier", ["12"], "Watermark", ["0"], "Watermark", "EndOfStream",
    ]  # fmt: skip


def test_letters_wait_for_room_and_come_in_batches() -> None:
    good, bad = channel(), channel(capacity_bytes=1)
    worker = picky([numbers(*range(1, 19, 2)), numbers(2), EndOfStream()], good, bad, batch_rows=4)
    seen: list[object] = []
    run(worker)
    while len(bad.receiver):
        seen += told(bad)
        run(worker)
    assert seen == [["1", "3", "5", "7"], ["9", "11", "13", "15"], ["17"], "Watermark", "EndOfStream"]
    assert told(good)[0] == [2]


def test_letters_have_the_header_of_their_batch_and_are_counted() -> None:
    good, bad = channel(), channel()
    worker = picky([numbers(1, 2, keep=0.5)], good, bad)
    run(worker)
    letter = bad.receiver.take()
    assert isinstance(letter, Batch)
    assert (letter.keep, letter.ingest_ns) == (0.5, 7)
    assert worker.instances[0].nodes[0].counters.rows_out == 2


def test_policies_hold() -> None:
    good, bad = channel(), channel()
    run(picky([numbers(1, 2), EndOfStream()], good, bad, policy="skip"))
    assert told(bad) == ["Watermark", "EndOfStream"]
    with pytest.raises(BadRecordError, match="'op' met a bad record: bad; the record is"):
        run(picky([numbers(1, 2), EndOfStream()], good, bad, policy="fail"))


@pytest.mark.parametrize("drained", [True, False])
def test_what_a_source_rejects_leaves_before_what_follows_from_the_same_read(drained: bool) -> None:
    clock = ManualClock()
    clock.advance_ns(3)
    raw = [RawRecord(b"{", "f:1", "truncated")]
    script = [Read(rejected=raw), Read(rows(5).rows, rejected=raw * 2), Read(rows(6, None).rows)]
    source = Scripts({"only": script if drained else [*script, *[Read(rejected=[])] * 100]})
    letters = DeadLetterOutput(DeadLetterWriter(Path("unused")), clock, 100)
    operator = open_operator(Passing(), clock=clock)
    counters = operator.context.counters
    good, bad = channel(), channel()
    node = ChainNode(
        "source", operator, counters, exchanged={MAIN: forward(good), DEAD_LETTER: forward(bad)}, letters=letters
    )
    head = SourceHead(
        SourceStream("source", source, TimeColumn("at"), 0),
        SourceStart(["only"]),
        ReadPace(8, linger_ns=0, idle_timeout_ns=100 * MS),
        clock=clock,
        counters=counters,
        dead_letters=letters,
    )
    instance = Instance("source", 0, clock, root=node, head=head)
    for _ in range(3):
        instance.step()
    if not drained:
        head.stop(drain=False)
    instance.step()
    assert instance.done
    found = [item.rows.num_rows if isinstance(item, Batch) else type(item).__name__ for item in drain(bad)]
    ends = ["Watermark", "EndOfStream"] if drained else ["EndOfStream"]
    assert found == [1, 2, "Watermark", 1, "Watermark", *ends]
    assert (counters.rows_in, counters.passed, counters.dead_lettered, counters.rows_out) == (6, 2, 4, 6)


class Passing(Operator):
    """Passes every row and counts none, as in a source's chain."""

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        yield MAIN, batch


def drain(outbound: Channel) -> list[Element]:
    items = [outbound.receiver.take() for _ in range(len(outbound.receiver))]
    assert all(item.ingest_ns == 3 for item in items if isinstance(item, Batch))
    return [item for item in items if item is not None]
