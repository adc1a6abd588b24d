"""The sink operator at barriers: each checkpoint gets what its writer prepared."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.connectors.files.sinks import JsonLinesSink
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import Barrier, Batch, Element, EndOfStream
from penstock.engine.dataflow.chain import ChainNode, push
from penstock.engine.operators.sink import SinkOperator
from penstock.model.connectors import Sink, Writer
from penstock.model.job_graph import SinkSpec
from penstock.model.outstanding import Outstanding
from penstock.model.schema import StreamSchema
from tests.engine.support import open_operator

FIELDS = pa.schema([("a", pa.int64())])


def opened(sink: Sink) -> SinkOperator:
    return open_operator(SinkOperator(SinkSpec(sink), StreamSchema(FIELDS), "sink"))


def process(operator: SinkOperator, *values: int) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=FIELDS)
    assert list(operator.process(0, Batch(rows))) == []


def test_every_checkpoint_has_its_receipt(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "out").with_checkpoints()
    sink.recover(None, [])
    operator = opened(sink)
    process(operator, 1, 2)
    assert list(operator.on_barrier(1)) == []
    process(operator, 3)
    operator.on_barrier(2)
    operator.on_barrier(3)
    rows: dict[int, Any] = {epoch: [file["rows"] for file in receipt] for epoch, receipt in operator.receipts.items()}
    assert rows == {1: [2], 2: [1], 3: []}
    sink.commit(1, [operator.take_receipt(1)])
    assert list(operator.receipts) == [2, 3]
    with pytest.raises(KeyError):
        operator.take_receipt(1)
    # Checkpoint 2 was given up: its receipt goes with the next.
    sink.commit(3, [operator.take_receipt(epoch) for epoch in list(operator.receipts)])
    operator.close()
    texts = [path.read_text() for path in sorted((tmp_path / "out").glob("*.jsonl"))]
    assert "".join(texts).split() == ['{"a":1}', '{"a":2}', '{"a":3}']


def test_a_sink_without_transactions_has_no_receipt() -> None:
    sink = MemorySink()
    operator = opened(sink)
    process(operator, 1)
    operator.on_barrier(1)
    assert dict(operator.receipts) == {1: None}
    assert sink.rows() == [{"a": 1}]


class Slow(Writer):
    """Takes one batch at a time, which arrives when a test says so."""

    def __init__(self) -> None:
        self.left = 0

    def write(self, rows: pa.RecordBatch) -> None:
        assert not self.left
        self.left = rows.num_rows

    def has_room(self) -> bool:
        return not self.left

    def outstanding(self) -> Outstanding | None:
        return Outstanding(self.left, 0, "somewhere") if self.left else None

    def flush(self) -> None:
        assert not self.left, "nobody waits in the loop"


class SlowSink(MemorySink):
    """Writes with one that a test has."""

    def __init__(self, writer: Slow) -> None:
        super().__init__()
        self._slow = writer

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        return self._slow


@pytest.mark.parametrize("element", [Batch(pa.record_batch({"a": [2]})), Barrier(1), EndOfStream(drained=False)])
def test_what_a_writer_would_wait_for_parks_the_chain_and_is_looked_at_again(element: Element) -> None:
    clock, writer = ManualClock(), Slow()
    operator = open_operator(SinkOperator(SinkSpec(SlowSink(writer)), StreamSchema(FIELDS), "sink"), clock=clock)
    node = ChainNode("sink", operator, RowCounters())
    assert not list(push(node, 0, Batch(pa.record_batch({"a": [1]}))))
    pushing = push(node, 0, element)
    room = next(pushing)
    assert not room.has_room()
    due_ns = operator.timer_ns()
    assert due_ns is not None and clock.monotonic_ns() < due_ns <= clock.monotonic_ns() + 10_000_000
    assert operator.outstanding() == Outstanding(1, 0, "somewhere")
    writer.left = 0
    assert room.has_room() and next(pushing, None) is None
    assert operator.timer_ns() is None
