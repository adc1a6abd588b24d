"""Rows in memory under checkpoints: seen when their epoch is committed, once, whatever restarts."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock import count
from penstock.engine.connectors.local.memory import MemorySink
from penstock.model.connectors import Writer

SCHEMA = pa.schema([("a", pa.int64())])


def write(writer: Writer, *values: int) -> None:
    writer.write(pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=SCHEMA))


def seen(sink: MemorySink) -> list[int]:
    return [row["a"] for row in sink.rows()]


def test_rows_are_seen_when_their_epoch_is_committed() -> None:
    sink = MemorySink()
    held = sink.with_checkpoints()
    held.recover(None, [])
    writer = held.open(SCHEMA, 0, 1)
    write(writer, 1)
    first = writer.prepare(1)
    write(writer, 2)
    assert seen(sink) == []
    held.commit(1, [first])
    held.commit(1, [first])
    assert seen(sink) == [1]
    assert writer.prepare(2) is not None
    assert writer.prepare(3) is None


def test_receipts_of_another_process_stand_for_nothing() -> None:
    sink = MemorySink()
    held = sink.with_checkpoints()
    held.recover(7, [[7, 0], None])
    held.open(SCHEMA, 0, 1)
    assert seen(sink) == []


@given(st.lists(st.sampled_from(["write", "prepare", "commit", "fail", "fall back"]), max_size=30))
def test_every_row_once_whatever_fails(steps: list[str]) -> None:
    sink = MemorySink()
    held = sink.with_checkpoints()
    held.recover(None, [])
    writer = held.open(SCHEMA, 0, 1)
    row = epoch = 0
    waiting: list[object] = []
    complete: list[tuple[int, int, list[object]]] = []
    for step in steps:
        if step == "write":
            write(writer, row)
            row += 1
        elif step == "prepare":
            epoch += 1
            waiting.append(writer.prepare(epoch))
            position = row
        elif step == "commit" and waiting:
            # Complete, but the process of committing may be cut off by what follows.
            complete.append((epoch, position, list(waiting)))
            held.commit(epoch, waiting)
            waiting.clear()
        elif step in ("fail", "fall back"):
            if step == "fall back" and complete:
                complete.pop()
            waiting.clear()
            if complete:
                last, row, receipts = complete[-1]
                held.recover(last, receipts)
            else:
                row = 0
                held.recover(None, [])
            writer = held.open(SCHEMA, 0, 1)
        assert seen(sink) == list(range(complete[-1][1] if complete else 0))


@pytest.mark.fixed_settings("parallelism")
@pytest.mark.parametrize("updating", [False, True])
def test_a_job_that_restarts_shows_every_row_once(updating: bool, tmp_path: Path) -> None:
    job, batches = ps.Job(), 0

    def look(rows: pa.RecordBatch) -> None:
        nonlocal batches
        batches += 1
        if batches in (5, 9, 30):
            raise ConnectionError("the outside is gone for a moment")

    rows = ps.read_memory([{"k": number % 7, "n": number} for number in range(2_000)], job=job).name("rows")
    stream = rows.key_by("k").agg(n=count()).name("counts") if updating else rows
    result = stream.collect().name("result")
    rows.for_each_batch(look).name("look")
    job.run(
        "j",
        directory=tmp_path,
        batch_rows=50,
        checkpoint_dir=tmp_path / "c",
        checkpoint_interval="1ms",
        restart_delay="1ms",
    )
    if updating:
        expected = [{"k": key, "n": len(range(key, 2_000, 7))} for key in range(7)]
        assert sorted(result.rows(), key=lambda row: row["k"]) == expected
    else:
        assert [row["n"] for row in result.rows()] == list(range(2_000))
