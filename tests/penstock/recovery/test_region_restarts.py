"""Two pipelines of one job that share no channel: what strikes the one, the other does not notice."""

import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.connectors import Read, Reader, Sink, Source, Writer
from tests.penstock.front_door import line
from tests.penstock.recovery.checkpoint_jobs import LONG_S

SCHEMA = pa.schema({"n": pa.int64(), "key": pa.int64()})
BATCHES = 40
ROWS = 25


class Numbers(Source):
    """Hands out so many batches of numbers, and then ends; notes where it was opened and counts what was read."""

    def __init__(self, batches: float = BATCHES, rows: int = ROWS) -> None:
        self.batches, self.rows = batches, rows
        self.opened: list[int] = []
        self.read = 0

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["only"]

    def open(self, partition: str, position: Any | None) -> Reader:
        self.opened.append(position or 0)
        return NumbersReader(self, position or 0)


class NumbersReader(Reader):
    def __init__(self, source: Numbers, batch: int) -> None:
        self.source, self.batch = source, batch

    def read(self, max_rows: int) -> Read:
        if self.batch == self.source.batches:
            return ps.ENDED
        numbers = range(self.batch * self.source.rows, (self.batch + 1) * self.source.rows)
        self.batch += 1
        self.source.read += 1
        return Read(pa.RecordBatch.from_pydict({"n": numbers, "key": [number % 7 for number in numbers]}, SCHEMA))

    def position(self) -> int:
        return self.batch


class Failing:
    """Looks at the batches of a pipeline, and raises at some of them."""

    def __init__(self, *at: int, error: type[Exception] = ConnectionError) -> None:
        self.at, self.error, self.seen = at, error, count(1)
        self.raised = threading.Event()
        self.then: Callable[[], None] = lambda: None

    def __call__(self, rows: pa.RecordBatch) -> None:
        if next(self.seen) in self.at:
            self.then()
            self.raised.set()
            raise self.error("the outside is gone for a moment")


def pipelines(folder: Path, failing: Failing, struck: Source, other: Source) -> Job:
    """Count by key twice; batches of one of the two are shown to ``failing``."""
    job = ps.Job()
    for name, source, look in (("struck", struck, failing), ("other", other, Failing())):
        rows = ps.read(source, job=job).name(f"{name} rows")
        rows.for_each_batch(look).name(f"{name} looks")
        totals = rows.key_by("key").agg(rows=ps.count(), total=ps.sum_("n")).name(f"{name} totals")
        totals.write_json(folder / name, mode="changelog").name(f"{name} out")
    return job


def run(folder: Path, failing: Failing, struck: Numbers, other: Numbers, **options: Any) -> JobMetrics:
    job = pipelines(folder, failing, struck, other)
    given = {"checkpoint_interval": "20ms", "restart_delay": "1ms", "batch_rows": ROWS, "directory": folder / "job"}
    return job.run("two", checkpoint_dir=folder / "checkpoints", **{**given, **options})


def written(folder: Path) -> dict[int, tuple[int, int]]:
    """Return what stands in a changelog of rows and totals by key."""
    standing: dict[str, int] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            row = json.loads(text)
            weight = row.pop("weight")
            key = json.dumps(row, sort_keys=True)
            standing[key] = standing.get(key, 0) + weight
    rows = [json.loads(key) for key, weight in standing.items() if weight]
    assert all(weight in (0, 1) for weight in standing.values())
    return {row["key"]: (row["rows"], row["total"]) for row in rows}


def expected(batches: int = BATCHES) -> dict[int, tuple[int, int]]:
    numbers = range(batches * ROWS)
    return {key: (len(numbers[key::7]), sum(numbers[key::7])) for key in range(7)}


def restarts(metrics: JobMetrics) -> dict[str, int]:
    assert metrics.checkpoints is not None
    return {region.region.split()[0]: region.restarts for region in metrics.checkpoints.regions}


@pytest.mark.parametrize(
    ("at", "parallelism"), [((3,), 2), ((BATCHES // 2, BATCHES), 1), ((BATCHES // 2, BATCHES), 2), ((1, 2, 3), 1)]
)
@pytest.mark.parametrize("interval", ["1ms", "30ms", "1h"])
def test_both_write_what_they_would_have_written(
    tmp_path: Path, at: tuple[int, ...], parallelism: int, interval: str, capsys: pytest.CaptureFixture[str]
) -> None:
    struck, other = Numbers(), Numbers()
    metrics = run(tmp_path, Failing(*at), struck, other, checkpoint_interval=interval, parallelism=parallelism)
    assert written(tmp_path / "struck") == written(tmp_path / "other") == expected()
    assert (len(struck.opened), len(other.opened)) == (len(at) + 1, 1)
    assert other.read == BATCHES
    assert struck.read > BATCHES or interval == "1ms"
    assert restarts(metrics) == {"struck": len(at), "other": 0}
    for name in ("struck", "other"):
        assert line(metrics, f"{name} looks") == {"rows_in": BATCHES * ROWS, "passed": BATCHES * ROWS}
        assert line(metrics, f"{name} totals")["folded"] == BATCHES * ROWS
    told = [text for text in capsys.readouterr().err.splitlines() if text.startswith("RESTARTED")]
    assert len(told) == len(at)
    assert all("RESTARTED: 'struck rows" in text and "other" not in text for text in told)
    assert all("while the rest ran on" in text and "ConnectionError: the outside is gone" in text for text in told)


@pytest.mark.parametrize("drain", [False, True])
def test_the_other_works_while_the_struck_one_waits_and_a_stop_is_heard(tmp_path: Path, drain: bool) -> None:
    struck, other = Numbers(math.inf), Numbers(math.inf)
    failing = Failing(5)
    at_failure: list[int] = []
    failing.then = lambda: at_failure.append(other.read)
    job = pipelines(tmp_path, failing, struck, other)
    directories = {"checkpoint_dir": tmp_path / "checkpoints", "directory": tmp_path / "job"}
    handle = job.start("two", checkpoint_interval="5ms", restart_delay="60s", batch_rows=ROWS, **directories)
    assert failing.raised.wait(LONG_S)
    began = time.monotonic()
    while other.read < at_failure[0] + 200:
        assert time.monotonic() < began + LONG_S
        time.sleep(0.005)
    assert len(struck.opened) == 1, "the delay is not over"
    metrics = handle.stop(drain=drain)
    assert len(struck.opened) == 2, "a stop does not wait for the delay"
    assert len(other.opened) == 1
    assert restarts(metrics) == {"struck": 1, "other": 0}
    for name in ("struck", "other"):
        found = written(tmp_path / name)
        rows = line(metrics, f"{name} looks").get("rows_in", 0)
        assert sum(counted for counted, _ in found.values()) == rows
        assert sum(total for _, total in found.values()) == rows * (rows - 1) // 2


def test_what_cannot_pass_ends_the_whole_job(tmp_path: Path) -> None:
    struck, other = Numbers(), Numbers(math.inf)
    failing = Failing(5, error=ValueError)
    with pytest.raises(ValueError, match="the outside is gone") as raised:
        run(tmp_path, failing, struck, other, checkpoint_interval="1ms")
    assert not any("While the job was aborted" in note for note in getattr(raised.value, "__notes__", ()))
    assert len(other.opened) == 1
    metrics = run(tmp_path, Failing(), Numbers(2 * BATCHES), Numbers(2 * BATCHES))
    assert written(tmp_path / "struck") == expected(2 * BATCHES)
    assert restarts(metrics) == {"struck": 0, "other": 0}


def test_a_sink_that_cannot_commit_strikes_its_own_pipeline(tmp_path: Path) -> None:
    struck, other = Numbers(), Numbers()
    sinks = {"struck": Committing(fails_at=1), "other": Committing()}
    job = ps.Job()
    for name, source in (("struck", struck), ("other", other)):
        ps.read(source, job=job).name(f"{name} rows").write(sinks[name]).name(f"{name} out")
    metrics = job.run(
        "two", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "job", checkpoint_interval="1ms",
        restart_delay="1ms", batch_rows=ROWS,
    )  # fmt: skip
    for sink in sinks.values():
        assert sorted(number for rows in sink.committed.values() for number in rows) == list(range(BATCHES * ROWS))
    assert sinks["struck"].failed
    assert restarts(metrics) == {"struck": 1, "other": 0}
    assert len(other.opened) == 1


def test_what_has_ended_is_part_of_every_later_checkpoint(tmp_path: Path) -> None:
    """Its state lies in pages, which are copied each time."""
    job = ps.Job()
    brief, lasting = Numbers(20, 2_500), Numbers(math.inf)
    for name, source in (("brief", brief), ("lasting", lasting)):
        totals = ps.read(source, job=job).name(name).key_by(by=ps.col("n") % 50_000).agg(rows=ps.count())
        totals.name(f"{name} totals").write_black_hole(mode="changelog").name(f"{name} out")
    handle = job.start(
        "two", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "job", checkpoint_interval="10ms",
        state_bytes=8 << 20, batch_rows=5_000,
    )  # fmt: skip
    began = time.monotonic()
    ended_at = None
    while ended_at is None or handle.metrics().checkpoints.committed < ended_at + 3:
        assert time.monotonic() < began + LONG_S
        time.sleep(0.005)
        if ended_at is None and brief.read == brief.batches:
            ended_at = handle.metrics().checkpoints.committed
    metrics = handle.stop()
    assert metrics.checkpoints.aborted == 0


class Committing(Sink):
    """Keeps the numbers of each epoch in memory; fails to commit once."""

    transactional = True

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at, self.failed, self.calls = fails_at, False, count(1)
        self.committed: dict[int, list[int]] = {}

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        return CommittingWriter()

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        if next(self.calls) == self.fails_at:
            self.failed = True
            raise ConnectionError("no commit today")
        self.committed.setdefault(epoch, [number for receipt in receipts for number in receipt])

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        self.committed = {known: rows for known, rows in self.committed.items() if epoch is not None and known <= epoch}
        if epoch is not None:
            self.committed.setdefault(epoch, [number for receipt in receipts for number in receipt])


class CommittingWriter(Writer):
    def __init__(self) -> None:
        self.rows: list[int] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.column("n").to_pylist()

    def prepare(self, epoch: int) -> list[int]:
        rows, self.rows = self.rows, []
        return rows
