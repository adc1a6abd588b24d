"""Jobs in this process: how they start, stop, fail and say where their time went."""

import asyncio
import json
import sys
import threading
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from penstock.dsl.handle import Handle
from penstock.dsl.job import Captured, Job, launching
from penstock.engine.jobs.ledger import check_ledger
from penstock.engine.jobs.metrics import JobMetrics
from penstock.runs.run_options import RunOptions
from tests.penstock.front_door import (
    ORDERS,
    SCHEMA,
    Row,
    Script,
    batch,
    dead_letters,
    line,
    ordered,
    orders,
)

LONG_S = 30.0
"""Longer than anything here takes."""


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def counting(job: Job | None = None) -> ps.Result:
    return orders(job).key_by("item").agg(n=ps.count()).collect()


COUNTED: list[Row] = [{"item": "ink", "n": 2}, {"item": "pen", "n": 3}, {"item": None, "n": 1}]


def endless(*rows: Row) -> tuple[ps.Stream, Script]:
    """Read rows from a source that then has nothing for ever."""
    source = Script(SCHEMA, chain([batch(*rows)], repeat(ps.NOTHING)), bounded=False)
    return ps.read(source, time="at", job=ps.Job()), source


def seen(stream: ps.Stream) -> threading.Event:
    """Say when a batch has reached a sink."""
    event = threading.Event()
    stream.for_each_batch(lambda rows: event.set())
    return event


@pytest.mark.fixed_settings
def test_a_run_returns_its_metrics() -> None:
    result = counting()
    metrics = result.job.run("counting")
    assert ordered(result.rows()) == COUNTED
    assert (metrics.name, metrics.source_rows) == ("counting", 6)
    assert json.loads(json.dumps(metrics.as_dict()))["ledger"]["edges"] == []


def test_the_default_job_is_named_after_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.dsl.job._default_job", job := Job())
    monkeypatch.setattr(sys, "argv", ["/somewhere/hot_items.py"])
    result = ps.read_memory(ORDERS, schema=SCHEMA).collect()
    assert ps.run().name == "hot_items"
    assert result.job is job
    assert ps.start().wait().name == "hot_items"


def test_a_job_can_be_run_twice() -> None:
    result = counting()
    for _ in range(2):
        result.job.run("again")
        assert ordered(result.rows()) == COUNTED


def test_a_job_can_grow_between_two_runs() -> None:
    job = Job()
    counting(job).job.run("grows")
    second = orders(job).filter(col("price") > 4).collect()
    job.run("grows")
    assert len(second.rows()) == 2


def test_a_run_in_a_thread() -> None:
    result = counting()
    thread = threading.Thread(target=result.job.run, args=["threaded"])
    thread.start()
    thread.join(LONG_S)
    assert ordered(result.rows()) == COUNTED


def test_a_run_inside_a_running_event_loop() -> None:
    async def main() -> list[list[Row]]:
        here, background = counting(), counting()
        here.job.run("here")
        handle = background.job.start("background")
        await asyncio.to_thread(handle.wait)
        return [ordered(here.rows()), ordered(background.rows())]

    assert asyncio.run(main()) == [COUNTED, COUNTED]


@pytest.mark.fixed_settings("parallelism")
def test_a_stop_leaves_open_windows_unwritten() -> None:
    stream, source = endless(*ORDERS)
    event = seen(stream)
    counts = stream.window(ps.tumbling("10s")).agg(n=ps.count()).collect()
    raw = stream.collect()
    handle = stream.job.start("stopped")
    assert event.wait(LONG_S)
    running, metrics, still = handle.running, handle.stop(), handle.running
    assert (running, still) == (True, False)
    assert [row["n"] for row in counts.rows()] == [3, 2]
    assert len(raw.rows()) == 6
    assert source.closed == 1
    assert line(metrics, "agg-1") == {"rows_in": 6, "folded": 6, "rows_out": 2}


def test_a_draining_stop_closes_open_windows() -> None:
    stream, _ = endless(*ORDERS)
    event = seen(stream)
    counts = stream.window(ps.tumbling("10s")).agg(n=ps.count()).collect()
    handle = stream.job.start("drained", parallelism=2)
    assert event.wait(LONG_S)
    handle.stop(drain=True)
    assert [row["n"] for row in counts.rows()] == [3, 2, 1]


@pytest.mark.parametrize("drain", [False, True])
def test_a_stop_writes_what_was_read(drain: bool) -> None:
    stream, _ = endless(*ORDERS)
    event = seen(stream)
    stream.key_by("item").agg(n=ps.count()).write_parquet("counts.parquet", mode="upsert", key="item")
    handle = stream.job.start("files")
    assert event.wait(LONG_S)
    handle.stop(drain=drain)
    latest = {row["item"]: row["n"] for row in pq.read_table("counts.parquet").to_pylist()}
    assert latest == {"pen": 3, "ink": 2, None: 1}


def test_metrics_while_it_runs_and_after() -> None:
    stream, _ = endless(*ORDERS)
    event = seen(stream)
    handle = stream.job.start("measured")
    assert event.wait(LONG_S)
    running = handle.metrics()
    assert running.source_rows == 6
    with pytest.raises(TimeoutError, match=r"'measured' still runs after 0\.01 s"):
        handle.wait(0.01)
    ended = handle.stop()
    assert ended.elapsed_ns >= running.elapsed_ns
    assert handle.metrics() == ended


def test_a_failed_background_job_raises_where_it_is_waited_for() -> None:
    job = Job()
    orders(job).for_each_batch(fail)
    handle = job.start("fails")
    with pytest.raises(ValueError, match="no room") as error:
        handle.wait(LONG_S)
    assert any("In task" in note for note in error.value.__notes__)
    with pytest.raises(ValueError, match="no room"):
        handle.stop()


def fail(rows: pa.RecordBatch) -> None:
    raise ValueError("no room")


def test_what_cannot_be_built_fails_at_once() -> None:
    job = Job()
    orders(job)
    with pytest.raises(ps.PlanError, match="has no sink; end a stream with"):
        job.start("empty")


def test_a_failing_sink_leaves_no_half_written_files(tmp_path: Path) -> None:
    job = Job()
    (tmp_path / "old.csv").write_text("as it was")
    stream = orders(job)
    stream.write_parquet("rows.parquet")
    stream.write_json("folder")
    stream.write_csv("old.csv")
    stream.for_each_batch(fail)
    with pytest.raises(ValueError, match="no room"):
        job.run("fails")
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*")) if path.is_file()] == ["old.csv"]
    assert (tmp_path / "old.csv").read_text() == "as it was"


class Stubborn(ps.Sink, ps.Writer):
    """Fails when it is closed, and again when it is aborted."""

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> ps.Writer:
        return self

    def write(self, rows: pa.RecordBatch) -> None:
        return

    def close(self) -> None:
        raise OSError("disk full")

    def abort(self) -> None:
        raise OSError("disk still full")


@pytest.mark.fixed_settings
def test_a_failing_abort_keeps_no_other_from_aborting() -> None:
    job = Job()
    source = Script(SCHEMA, [batch(*ORDERS)])
    stream = ps.read(source, job=job)
    stream.write(Stubborn())
    stream.write_json("rows.jsonl")
    with pytest.raises(OSError, match="disk full") as error:
        job.run("fails")
    assert error.value.__notes__ == ["While the job was aborted: OSError: disk still full"]
    assert not Path("rows.jsonl").exists()
    assert source.closed == 1


def test_what_was_opened_is_closed_when_another_cannot_be() -> None:
    job = Job()
    source = Script(SCHEMA, [])
    Path("taken.json").mkdir()
    ps.read(source, job=job).write_json("rows.jsonl")
    orders(job).write(Unopened())
    with pytest.raises(PermissionError):
        job.run("fails")
    assert source.closed == 1
    assert not list(Path().glob("*rows.jsonl*"))


class Unopened(ps.Sink):
    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> ps.Writer:
        raise PermissionError("locked")


def doubtful(row: Row) -> Row:
    if row["price"] is None:
        raise LookupError("no price")
    return row


def test_dead_letters_hold_row_error_and_traceback(tmp_path: Path) -> None:
    result = orders().map(doubtful).name("careful").collect()
    metrics = result.job.run("letters", directory=tmp_path)
    assert len(result.rows()) == 5
    assert line(metrics, "careful") == {"rows_in": 6, "passed": 5, "dead_lettered": 1, "rows_out": 5}
    (letter,) = dead_letters(tmp_path)
    assert letter["operator"] == "careful"
    assert letter["error"] == "LookupError: no price"
    assert "in doubtful" in letter["traceback"]
    assert json.loads(letter["text"]) == {"item": "ink", "price": None, "at": "2025-03-01T12:00:12.000000"}


def test_dead_letters_go_to_the_jobs_own_directory() -> None:
    result = orders().map(doubtful).collect()
    result.job.run("letters")
    assert len(dead_letters(Path(".penstock/letters"))) == 1


def test_skipped_rows_are_counted_but_not_written(tmp_path: Path) -> None:
    result = orders().map(doubtful, on_error="skip").collect()
    metrics = result.job.run("skips", directory=tmp_path)
    assert metrics.ledger.dead_lettered == 1
    assert not dead_letters(tmp_path)


@pytest.mark.parametrize("verb", ["map", "flat_map", "filter", "map_batches"])
def test_fail_ends_the_job_at_the_first_bad_row(tmp_path: Path, verb: str) -> None:
    def refuse(rows: Any) -> Any:
        raise LookupError("no price")

    stream = getattr(orders(), verb)(refuse, on_error="fail")
    stream.name("strict").write_json("rows.jsonl")
    with pytest.raises(ps.BadRecordError, match=r"'strict' met a bad record: LookupError: no price; the record is \{"):
        stream.job.run("fails", directory=tmp_path)
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_time_spent_adds_up_to_the_wall(parallelism: int) -> None:
    # Long enough that a pause of the process beside it is a small part.
    numbers = pa.table({"key": np.arange(2_000_000) % 1_000, "value": np.arange(2_000_000)})
    for _ in range(5):
        job = Job()
        stream = ps.read_memory(numbers, job=job).filter(lambda value: value % 2 == 0)
        stream.key_by("key").agg(total=ps.sum_("value")).write_black_hole(mode="changelog")
        metrics = job.run("timed", parallelism=parallelism, batch_rows=4_096)
        assert len(metrics.instances) == (1 if parallelism == 1 else 4)
        check_ledger(metrics.ledger, ended=True)
        busy_ns = sum(instance.time.busy_ns for instance in metrics.instances)
        assert 0.5 * metrics.elapsed_ns < busy_ns <= metrics.elapsed_ns
        walls = [instance.time.wall_ns for instance in metrics.instances]
        # The job is timed for a little longer than its instances: a busy machine may stand still between the looks.
        if walls == pytest.approx([metrics.elapsed_ns] * len(walls), rel=0.02):
            return
    assert walls == pytest.approx([metrics.elapsed_ns] * len(walls), rel=0.02)


def test_two_instances_share_the_work() -> None:
    job = Job()
    numbers = pa.table({"key": np.arange(10_000), "value": np.arange(10_000)})
    ps.read_memory(numbers, job=job).key_by("key").agg(total=ps.sum_("value")).write_black_hole(mode="changelog")
    metrics = job.run("shared", parallelism=2)
    (edge,) = [edge for edge in metrics.ledger.edges if edge.edge == "source-1 -> agg-1"]
    assert edge.sent == edge.received == 10_000
    assert [instance.instance for instance in metrics.instances] == [0, 1, 0, 1]


@pytest.mark.fixed_settings
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"batchrows": 5},
            r"unknown option 'batchrows'; .* options are accept_changed, accept_duplicates, action_log, action_token,",
        ),
        ({"batch_rows": 0}, "batch_rows must be a whole number of at least 1, not 0"),
        ({"channel_bytes": -5}, "channel_bytes must be a whole number of at least 1, not -5"),
        ({"linger_ms": -1}, "linger_ms must be a whole number of at least 0, not -1"),
        ({"parallelism": 0}, "parallelism must be a whole number of at least 1, not 0"),
        ({"parallelism": "2"}, "parallelism is a number or 'auto', not '2'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ps.OptionError, match=sentence):
        counting().job.run("options", **options)


class Taker:
    """Takes jobs over and starts nothing."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def launch(self, job: Job, options: RunOptions) -> JobMetrics:
        self.taken.append(f"run {options.name}")
        raise Captured

    def start(self, job: Job, options: RunOptions) -> Handle:
        self.taken.append(f"start {options.name}")
        raise Captured


def test_a_launcher_takes_jobs_over() -> None:
    taker, result = Taker(), counting()
    with launching(taker):
        for call in (result.job.run, result.job.start):
            with pytest.raises(Captured):
                call("taken")
    assert taker.taken == ["run taken", "start taken"]
    with pytest.raises(ps.PlanError, match="run the job first"):
        result.rows()
