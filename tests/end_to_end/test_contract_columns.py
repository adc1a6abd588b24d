"""Queries under contract in every sink and mode, and on task managers: what was not shed is exact, and says so."""

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import penstock as ps

START = dt.datetime(2026, 1, 1)
ROWS = [{"k": number % 3, "v": number, "at": START + dt.timedelta(seconds=number)} for number in range(60)]
NAMES = ["k", "window_start", "window_end", "n", "most"]
ADDED = ["accuracy", "biased", "n_low", "n_high", "n_certified"]


def windows(job: ps.Job) -> ps.Stream:
    rows = ps.read_memory(ROWS, time="at", job=job)
    return rows.key_by("k").window(ps.tumbling("20s")).agg(n=ps.count(), most=ps.max_("v"))


def test_every_sink_writes_the_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = ps.Job()
    made = windows(job)
    batches: list[pa.RecordBatch] = []
    for handle in (
        made.write_parquet(tmp_path / "out.parquet"),
        made.write_csv(tmp_path / "out.csv"),
        made.write_json(tmp_path / "out.jsonl"),
        made.for_each_batch(batches.append),
        made.print(),
    ):
        handle.with_min_accuracy(0.9)
    kept = made.collect().with_min_accuracy(0.9)
    job.run("sinks")
    table = kept.table()
    assert table.schema.names == [*NAMES, *ADDED]
    assert table.num_rows == 9
    assert set(table["accuracy"].to_pylist()) == {1.0} and table["n"].equals(table["n_low"])
    assert pq.read_table(tmp_path / "out.parquet").equals(table)
    assert pa_csv.read_csv(tmp_path / "out.csv").schema.names == [*NAMES, *ADDED]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(lines) == 9 and all(list(line) == [*NAMES, *ADDED] for line in lines)
    assert pa.Table.from_batches(batches).equals(table)
    printed = capsys.readouterr().out
    assert all(name in printed for name in ADDED)


def test_columns_stand_before_what_a_mode_adds() -> None:
    job = ps.Job()
    counts = ps.read_memory(ROWS, job=job).key_by("k").agg(n=ps.count())
    upserts: list[pa.RecordBatch] = []
    changes: list[pa.RecordBatch] = []
    counts.for_each_batch(upserts.append, mode="upsert", key="k").with_min_accuracy(0.5)
    counts.for_each_batch(changes.append, mode="changelog").with_min_accuracy(0.5)
    standing = counts.collect().with_min_accuracy(0.5)
    job.run("modes", batch_rows=7, emit_interval=0)
    assert upserts[-1].schema.names == ["k", "n", *ADDED, "deleted"]
    assert changes[-1].schema.names == ["k", "n", *ADDED, "weight"]
    assert sorted(standing.table().select(["k", "n", "n_high", "accuracy"]).to_pylist(), key=str) == [
        {"k": key, "n": 20, "n_high": 20, "accuracy": 1.0} for key in range(3)
    ]


@pytest.mark.long("test_operators_carry_the_columns has chains and hash exchanges in one process")
def test_columns_come_through_task_managers(tmp_path: Path) -> None:
    job = ps.Job()
    made = windows(job).filter(ps.col("n") > 0).select("k", "n", "window_end")
    made.write_parquet(tmp_path / "out").with_min_accuracy(0.9)
    bare = made.collect()
    job.run("managers", executor="processes", task_managers=2, parallelism=2, directory=tmp_path / "job")
    table = pq.read_table(tmp_path / "out")
    assert table.schema.names == ["k", "n", "window_end", *ADDED]
    assert set(table["accuracy"].to_pylist()) == {1.0} and table["n"].equals(table["n_high"])
    order = [("k", "ascending"), ("window_end", "ascending")]
    assert table.select(["k", "n", "window_end"]).sort_by(order).equals(bare.table().sort_by(order))
