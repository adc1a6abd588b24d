"""Runs of a job over a directory that grows, each over what is new: together they are one run over all of it."""

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.errors import OptionError, UserError
from penstock.model.failpoints import arm
from penstock.model.job_graph import SourceSpec
from tests.long_cases import but_for

RUNS = 10
WINDOW_S, DELAY_S = 20, 5
SCHEMA = pa.schema([("key", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("ms"))])
READERS = {"json": ps.read_json, "csv": ps.read_csv, "parquet": ps.read_parquet}

Row = dict[str, Any]


class Feed:
    """Files of every hour in turn, in a directory; times go on, a little out of order."""

    def __init__(self, folder: Path, kind: str = "json") -> None:
        folder.mkdir()
        self.folder, self._kind = folder, kind
        self._random = random.Random(7)
        self._s = 0
        self.rows: list[Row] = []
        self.files: list[Path] = []

    def hour(self, files: int = 1, count: int = 60) -> None:
        """Write more files, which share the hour."""
        made: list[list[Row]] = [[] for _ in range(files)]
        for number in range(count):
            self._s += self._random.randrange(3)
            at_s = max(0, self._s - self._random.randrange(DELAY_S))
            made[number % files].append(
                {"key": self._random.choice("abcd"), "v": self._random.randrange(100), "at": 1_000 * at_s}
            )
        for rows in made:
            self.rows += rows
            path = self.folder / f"{len(self.files):05}.{self._kind}"
            self.files.append(path)
            write(path, rows)


def write(path: Path, rows: Sequence[Row]) -> None:
    if path.suffix == ".json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    columns = {"key": [row["key"] for row in rows], "v": [row["v"] for row in rows]}
    table = pa.table({**columns, "at": pa.array([row["at"] for row in rows], pa.timestamp("ms"))}, schema=SCHEMA)
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=16)


def hourly(source: Path, out: Path, kind: str = "json") -> Job:
    job = Job()
    rows = READERS[kind](source, schema=SCHEMA, time="at", watermark=f"{DELAY_S}s", job=job).name("orders")
    windows = rows.key_by("key").window(ps.tumbling(f"{WINDOW_S}s")).agg(n=ps.count(), total=ps.sum_("v"))
    windows.name("windows").write_json(out / "windows").name("windows out")
    totals = rows.key_by("key").agg(n=ps.count(), total=ps.sum_("v")).name("totals")
    totals.write_json(out / "totals", mode="changelog").name("totals out")
    return job


def test_a_run_ends_behind_the_answers_to_its_calls(tmp_path: Path) -> None:
    """What is read in a run comes out in it, though nothing more is read while calls are on their way."""

    async def answer(v: int) -> dict[str, Any]:
        # Longer than a loop needs that has nothing to read.
        await asyncio.sleep(0.2)
        return {"twice": 2 * v}

    def once() -> int:
        job = Job()
        rows = ps.read_json(feed.folder, schema=SCHEMA, time="at", job=job).name("orders")
        answers = rows.map_async(answer, {"twice": int}, capacity=20).name("answers")
        answers.write_json(tmp_path / "answers").name("answers out")
        job.run("calls", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "job")
        return len(lines(tmp_path / "answers"))

    feed = Feed(tmp_path / "in")
    for expected in (30, 60):
        feed.hour(count=30)
        assert once() == expected
    assert sorted(row["twice"] for row in lines(tmp_path / "answers")) == sorted(2 * row["v"] for row in feed.rows)


def run(source: Path, out: Path, kind: str = "json", **options: Any) -> JobMetrics:
    options = {"checkpoint_dir": str(out / "checkpoints"), "restarts": 0, "directory": out / "job", **options}
    return hourly(source, out, kind).run("hourly", **options)


def lines(folder: Path) -> list[Row]:
    paths = [path for path in folder.rglob("*.json*") if path.is_file()]
    files = [path for path in paths if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def windows_of(out: Path) -> Counter[tuple[str, str, int, int]]:
    return Counter((row["key"], row["window_start"], row["n"], row["total"]) for row in lines(out / "windows"))


def totals_of(out: Path) -> dict[str, tuple[int, int]]:
    weights: Counter[tuple[str, int, int]] = Counter()
    for row in lines(out / "totals"):
        weights[row["key"], row["n"], row["total"]] += row["weight"]
    return {key: (n, total) for (key, n, total), weight in weights.items() if weight}


def expected_windows(rows: Sequence[Row]) -> Counter[tuple[str, str, int, int]]:
    sums: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        sums[row["key"], row["at"] // 1_000 // WINDOW_S * WINDOW_S].append(row["v"])
    return Counter((key, stamp(start_s), len(values), sum(values)) for (key, start_s), values in sums.items())


def expected_totals(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    values: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        values[row["key"]].append(row["v"])
    return {key: (len(found), sum(found)) for key, found in values.items()}


def stamp(time_s: int) -> str:
    return f"1970-01-01T{time_s // 3600:02}:{time_s // 60 % 60:02}:{time_s % 60:02}.000"


@pytest.mark.parametrize(
    ("kind", "parallelism"),
    but_for(
        [("json", 1), ("json", 2), ("csv", 2), ("parquet", 2)], [("json", 1), ("json", 2)], "other formats; JSON stays"
    ),
)
def test_ten_runs_are_as_one(tmp_path: Path, kind: str, parallelism: int, capsys: pytest.CaptureFixture[str]) -> None:
    feed = Feed(tmp_path / "in", kind)
    out = tmp_path / "out"
    for number in range(RUNS):
        feed.hour(files=number % 3 + 1)
        metrics = run(feed.folder, out, kind, parallelism=parallelism)
        assert (metrics.source_rows, metrics.ledger.late) == (len(feed.rows), 0)
        assert totals_of(out) == expected_totals(feed.rows)
        assert not windows_of(out) - expected_windows(feed.rows)
        assert "KEPT" in capsys.readouterr().err
    last_s = max(row["at"] for row in feed.rows) // 1_000 - DELAY_S
    over = [row for row in feed.rows if (row["at"] // 1_000 // WINDOW_S + 1) * WINDOW_S <= last_s]
    if parallelism == 1:
        assert windows_of(out) == expected_windows(over)
    # Once more, with nothing new: files that are gone are not missed.
    feed.files[0].unlink()
    run(feed.folder, out, kind, at_end="close")
    assert windows_of(out) == expected_windows(feed.rows)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_run_that_dies_is_made_good_by_the_next(tmp_path: Path, parallelism: int) -> None:
    feed = Feed(tmp_path / "in")
    out = tmp_path / "out"
    for number, point in enumerate(("checkpoint.before_upload", "", "checkpoint.before_commit", "job.ended", "")):
        feed.hour(files=2)
        if point:
            with pytest.raises(Death), dying_at(point):
                run(feed.folder, out, parallelism=parallelism)
            continue
        run(feed.folder, out, parallelism=parallelism)
        assert totals_of(out) == expected_totals(feed.rows), number
    run(feed.folder, out, at_end="close")
    assert windows_of(out) == expected_windows(feed.rows)


def test_a_failure_at_the_end_of_a_run_loses_nothing_of_it(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    feed.hour(files=3)
    failures = [ConnectionError("away"), ConnectionError("again")]

    def fail(name: str) -> None:
        if name == "instance.barrier.passed" and failures:
            raise failures.pop()

    arm(fail)
    try:
        metrics = run(feed.folder, tmp_path / "out", restarts=5, restart_delay="1ms")
    finally:
        arm(None)
    assert not failures
    assert metrics.checkpoints is not None
    assert metrics.checkpoints.restarts == 2
    assert totals_of(tmp_path / "out") == expected_totals(feed.rows)


class Death(BaseException):
    """The process is no more."""


@contextmanager
def dying_at(point: str) -> Iterator[None]:
    def die(name: str) -> None:
        if name == point:
            raise Death

    arm(die)
    try:
        yield
    finally:
        arm(None)


def test_a_directory_may_have_more_files_than_partitions(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    out = tmp_path / "out"
    for files in (300, 1, 40):
        feed.hour(files=files, count=files)
        assert run(feed.folder, out).source_rows == len(feed.rows)
    run(feed.folder, out, at_end="close")
    assert windows_of(out) == expected_windows(feed.rows)


def test_a_directory_may_grow_beyond_the_most_partitions(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    out = tmp_path / "out"
    for files in (200, 100, 1):
        feed.hour(files=files, count=2 * files)
        assert run(feed.folder, out, parallelism=2).source_rows == len(feed.rows)
    assert totals_of(out) == expected_totals(feed.rows)


def test_a_file_that_grew_after_it_was_read_is_refused(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    out = tmp_path / "out"
    feed.hour()
    run(feed.folder, out)
    with feed.files[0].open("a") as file:
        file.write('{"key": "a", "v": 1, "at": 200000}\n')
    with pytest.raises(UserError, match=r"00000.json' has \d+ bytes, but had \d+ .* new rows into new files"):
        run(feed.folder, out)
    feed.files[0].unlink()
    feed.hour()
    assert run(feed.folder, out).source_rows == 120


def test_a_job_that_is_run_again_in_its_process_sees_new_files(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    feed.hour()
    job = hourly(feed.folder, tmp_path / "out")
    for count in (60, 120):
        assert job.run("hourly", checkpoint_dir=str(tmp_path / "checkpoints")).source_rows == count
        feed.hour()


def test_without_a_choice_nothing_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed = Feed(tmp_path / "in")
    feed.hour()
    for name, options in {"one": {"checkpoint_dir": None}, "two": {}}.items():
        # Without checkpoints, and of a single file, the end of input is the end.
        source = feed.folder if name == "one" else feed.files[0]
        run(source, tmp_path / name, **options)
        assert windows_of(tmp_path / name) == expected_windows(feed.rows)
    said = capsys.readouterr().err
    assert "KEPT" not in said
    assert "CLOSED" not in said
    with pytest.raises(OptionError, match="give a checkpoint_dir"):
        run(feed.folder, tmp_path / "three", checkpoint_dir=None, at_end="keep")
    with pytest.raises(OptionError, match="at_end must be 'keep' or 'close', not 'drop'"):
        run(feed.folder, tmp_path / "three", at_end="drop")


def test_every_run_may_close_its_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed = Feed(tmp_path / "in")
    out = tmp_path / "out"
    expected: Counter[tuple[str, str, int, int]] = Counter()
    for number in range(3):
        before = len(feed.rows)
        feed.hour()
        metrics = run(feed.folder, out, at_end="close", parallelism=number % 2 + 1)
        assert metrics.ledger.late == 0
        expected += expected_windows(feed.rows[before:])
        assert windows_of(out) == expected
        assert ("FRESH WATERMARK" in capsys.readouterr().err) == (number > 0)
    feed.hour()
    with pytest.raises(UserError, match="source 'orders' has new rows, but the run before closed all windows"):
        run(feed.folder, out)


def test_what_can_grow_is_more_than_one_file(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    feed.hour()
    for path, grows in ((feed.folder, True), (feed.folder / "*.json", True), (feed.files[0], False)):
        specs = [node.spec for node in hourly(path, tmp_path).graph.operators.values()]
        assert [spec.source.grows for spec in specs if isinstance(spec, SourceSpec)] == [grows]
