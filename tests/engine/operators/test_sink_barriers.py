"""The sink operator at barriers: each checkpoint gets what its writer prepared."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.connectors.files.sinks import JsonLinesSink
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.core.elements import Batch
from penstock.engine.operators.sink import SinkOperator
from penstock.model.connectors import Sink
from penstock.model.job_graph import SinkSpec
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
