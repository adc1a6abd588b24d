"""Sinks as users call them: what is left behind, in which mode, and what a sink of one's own is asked."""

import csv
import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from tests.penstock.front_door import NOON, ORDERS, SCHEMA, Row, Script, batch, line, noon, ordered, orders, rows

pytestmark = pytest.mark.fixed_settings("parallelism", "batch_rows")
"""What writers are given, and in what order, is what these tests look at."""


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Logged(ps.Sink):
    """As a user would write it: writes down every call."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> ps.Writer:
        self.calls.append(f"open {instance}/{parallelism} {','.join(schema.names)}")
        return LoggedWriter(self.calls, instance)


class LoggedWriter(ps.Writer):
    def __init__(self, calls: list[str], instance: int) -> None:
        self.calls = calls
        self.instance = instance

    def write(self, rows: pa.RecordBatch) -> None:
        self.calls.append(f"write {self.instance} {rows.num_rows}")

    def flush(self) -> None:
        self.calls.append(f"flush {self.instance}")

    def close(self) -> None:
        self.calls.append(f"close {self.instance}")

    def abort(self) -> None:
        self.calls.append(f"abort {self.instance}")


def test_a_sink_of_the_users() -> None:
    sink = Logged()
    stream = orders()
    stream.write(sink)
    stream.job.run("logged", batch_rows=4)
    assert sink.calls == ["open 0/1 item,price,at", "write 0 4", "write 0 2", "flush 0", "close 0"]


def test_a_sink_has_a_writer_per_instance() -> None:
    sink = Logged()
    stream = orders()
    stream.rebalance().write(sink).parallelism(2)
    stream.job.run("logged", batch_rows=3)
    assert sorted(sink.calls[:2]) == ["open 0/2 item,price,at", "open 1/2 item,price,at"]
    assert {"write 0 3", "write 1 3", "close 0", "close 1"} <= set(sink.calls)


def test_a_failed_job_aborts_its_sinks() -> None:
    sink = Logged()
    stream = ps.read(Script(SCHEMA, [batch(*ORDERS), ValueError("gone")]), job=ps.Job())
    stream.write(sink)
    with pytest.raises(ValueError, match="gone"):
        stream.job.run("failed", batch_rows=6)
    assert sink.calls == ["open 0/1 item,price,at", "write 0 6", "abort 0"]


def test_a_changelog_reaches_a_sink_with_its_weight() -> None:
    sink = Logged()
    stream = orders().key_by("item").agg(n=ps.count())
    stream.write(sink, mode="changelog")
    stream.job.run("logged")
    assert sink.calls[0] == "open 0/1 item,n,weight"


def changes(mode: str, **options: Any) -> list[list[Row]]:
    """Return the batches that a count per item writes when every row comes by itself."""
    job = ps.Job()
    batches: list[list[Row]] = []
    stream = ps.read(Script(SCHEMA, [batch(row) for row in ORDERS]), time="at", job=job)
    counts = stream.key_by("item").emit(every=0).agg(n=ps.count()).filter(col("n") < 3)
    counts.for_each_batch(lambda rows: batches.append(rows.to_pylist()), mode=mode, **options)
    job.run("changes", linger_ms=0)
    return batches


def test_changelog_mode_writes_insertions_and_retractions() -> None:
    flat = [(row["item"], row["n"], row["weight"]) for rows in changes("changelog") for row in rows]
    assert flat == [
        ("pen", 1, 1),
        ("ink", 1, 1),
        ("pen", 1, -1),
        ("pen", 2, 1),
        (None, 1, 1),
        ("ink", 1, -1),
        ("ink", 2, 1),
        ("pen", 2, -1),
    ]


def test_upsert_mode_writes_the_last_row_of_a_key_or_that_it_is_gone() -> None:
    flat = [(row["item"], row["n"], row["deleted"]) for rows in changes("upsert", key="item") for row in rows]
    assert flat == [
        ("pen", 1, False),
        ("ink", 1, False),
        ("pen", 2, False),
        (None, 1, False),
        ("ink", 2, False),
        ("pen", 2, True),
    ]


@pytest.mark.parametrize("instances", [1, 2, 3])
def test_upserts_of_a_key_stay_in_order_whatever_the_parallelism(instances: int) -> None:
    job = ps.Job()
    numbers = [{"key": number % 7, "at": noon(number)} for number in range(300)]
    latest: dict[int, int] = {}

    def keep(rows: pa.RecordBatch) -> None:
        latest.update((row["key"], row["n"]) for row in rows.to_pylist())

    stream = ps.read_memory(numbers, job=job).key_by("key").emit(every=0).agg(n=ps.count())
    stream.for_each_batch(keep, mode="upsert", key="key").parallelism(instances)
    job.run("upserts", parallelism=2, batch_rows=4, channel_bytes=1)
    assert latest == {key: len(range(key, 300, 7)) for key in range(7)}


def test_append_only_streams_can_be_written_in_every_mode() -> None:
    job = ps.Job()
    stream = orders(job).filter(col("item") == "pen").select("item", "price")
    stream.write_json("log.jsonl", mode="changelog")
    stream.write_json("last.jsonl", mode="upsert", key=["item"])
    job.run("modes")
    assert [json.loads(text)["weight"] for text in Path("log.jsonl").read_text().splitlines()] == [1, 1, 1]
    assert json.loads(Path("last.jsonl").read_text()) == {"item": "pen", "price": 4, "deleted": False}


def test_columns_that_a_mode_adds_must_be_free() -> None:
    stream = orders().rename(price="weight", item="deleted")
    with pytest.raises(ps.PlanError, match="adds a column 'weight' in mode 'changelog'; rename yours"):
        stream.write_json("x", mode="changelog")
    with pytest.raises(ps.PlanError, match="adds a column 'deleted' in mode 'upsert'; rename yours"):
        stream.write_json("x", mode="upsert", key="at")


def read_back(path: Path) -> list[Row]:
    if path.suffix == ".parquet":
        found: list[Row] = pq.read_table(path).to_pylist()
        return found
    if path.suffix == ".jsonl":
        return [json.loads(text) for text in path.read_text().splitlines()]
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("write", "suffix"), [("write_parquet", ".parquet"), ("write_json", ".jsonl"), ("write_csv", ".csv")]
)
def test_a_file_or_a_directory_of_parts(write: str, suffix: str) -> None:
    stream = orders()
    getattr(stream, write)(f"one{suffix}").parallelism(1)
    getattr(stream, write)("parts").parallelism(2)
    for _ in range(2):
        stream.job.run("files", parallelism=2, batch_rows=1)
        assert len(read_back(Path(f"one{suffix}"))) == 6
        parts = sorted(Path("parts").iterdir())
        assert [part.name for part in parts] == [f"part-00000{suffix}", f"part-00001{suffix}"]
        assert sum(len(read_back(part)) for part in parts) == 6


def test_files_hold_what_was_written() -> None:
    stream = orders()
    stream.write_parquet("rows.parquet")
    stream.write_json("rows.jsonl")
    stream.write_csv("rows.csv")
    stream.job.run("files")
    assert pq.read_table("rows.parquet").schema == SCHEMA
    assert read_back(Path("rows.parquet")) == ORDERS
    assert read_back(Path("rows.jsonl"))[4] == {"item": "ink", "price": None, "at": "2025-03-01T12:00:12.000000"}
    assert read_back(Path("rows.csv"))[3] == {"item": "", "price": "2", "at": "2025-03-01 12:00:11.000000"}


def test_written_files_can_be_read_again() -> None:
    stream = orders()
    stream.write_parquet("copy/parquet")
    stream.write_json("copy/json")
    stream.write_csv("copy/csv")
    stream.job.run("out", parallelism=2)
    for path, read in (("copy/parquet", ps.read_parquet), ("copy/json", ps.read_json), ("copy/csv", ps.read_csv)):
        found = rows(read(path, schema=SCHEMA, time="at", job=ps.Job()))
        assert found == ordered(ORDERS), path


def test_a_file_cannot_stand_where_a_directory_is() -> None:
    Path("taken").mkdir()
    Path("file").write_text("in the way")
    stream = orders()
    stream.write_json("file/rows.jsonl")
    with pytest.raises(ps.UserError, match=r"cannot write 'file/rows\.jsonl'"):
        stream.job.run("files")


def test_print() -> None:
    out = io.StringIO()
    stream = orders().filter(col("price") > 4).select("item", "price")
    stream.print(file=out)
    stream.key_by("item").agg(n=ps.count()).print(file=out, mode="changelog")
    stream.job.run("printed")
    assert out.getvalue().splitlines()[:2] == ["item=ink  price=8", "item=pen  price=5"]
    assert sorted(out.getvalue().splitlines()[2:]) == ["+ item=ink  n=1", "+ item=pen  n=1"]


def test_print_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    stream = orders().select("price").filter(col("price") == 8)
    stream.print()
    stream.job.run("printed")
    assert capsys.readouterr().out == "price=8\n"


def test_a_black_hole_counts() -> None:
    stream = orders()
    stream.write_black_hole()
    metrics = stream.job.run("swallowed")
    assert line(metrics, "sink-1") == {"rows_in": 6, "passed": 6}


def test_a_callback_gets_batches() -> None:
    batches: list[int] = []
    stream = orders()
    stream.for_each_batch(lambda rows: batches.append(rows.num_rows))
    stream.job.run("called", batch_rows=4)
    assert batches == [4, 2]


def test_collected_rows_are_there_while_the_job_runs() -> None:
    stream = orders()
    counts: list[int] = []
    result = stream.collect()
    stream.for_each_batch(lambda rows: counts.append(len(result.rows())))
    with pytest.raises(ps.PlanError, match="holds nothing yet: run the job first"):
        result.rows()
    stream.job.run("collected", batch_rows=2)
    assert counts == [2, 4, 6]


def test_collected_updates_are_what_stands() -> None:
    stream = orders().key_by("item").emit(every=0).agg(n=ps.count())
    result = stream.collect()
    stream.job.run("collected", batch_rows=1)
    assert ordered(result.rows()) == [{"item": "ink", "n": 2}, {"item": "pen", "n": 3}, {"item": None, "n": 1}]


def test_zones_and_units_leave_as_they_came() -> None:
    at = pa.array([NOON, noon(1)], pa.timestamp("ms", "Europe/Berlin"))
    stream = ps.read_memory(pa.table({"at": at}), time="at", job=ps.Job())
    stream.write_parquet("zoned.parquet")
    windows = stream.window(ps.tumbling("1s")).agg(n=ps.count()).collect()
    stream.job.run("zoned")
    assert pq.read_table("zoned.parquet").schema.field("at").type == at.type
    assert windows.table().schema.field("window_start").type == at.type
    assert isinstance(windows.rows()[0]["window_start"], datetime)
