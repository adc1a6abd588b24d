"""A job whose source gives as many rows as a file says, so that a test decides how far it gets, and what it writes."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock import col
from penstock.dsl.handle import Handle
from penstock.engine.executors.processes import child as task_manager_process
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Sink, Source, Writer
from penstock.model.errors import RetryableError
from tests.benchmarks.same_rows import assert_same_rows

LONG_S = 120.0
"""Longer than anything here takes."""

PARTITIONS = 4
ROWS = 4_000
"""Rows of a partition, a hundredth of a second apart."""

KEYS = 17
BEGIN_US = int((datetime(2025, 3, 1, 12) - datetime(1970, 1, 1)).total_seconds() * 1e6)
SCHEMA = pa.schema({"id": pa.int64(), "key": pa.int64(), "at": pa.timestamp("us")})


def rows_of(partition: int, first: int, last: int) -> pa.RecordBatch:
    """Return some rows of a partition."""
    rows = np.arange(first, last)
    ids = rows * PARTITIONS + partition
    times = pa.array(BEGIN_US + rows * 10_000).cast(pa.timestamp("us"))
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array(ids * 7 % KEYS), times], schema=SCHEMA)


class Metered(Source):
    """Gives up to so many rows of each partition as a file says by then, and ends when it has given all."""

    bounded = False
    aligned = False

    def __init__(self, meter: Path) -> None:
        self.meter = meter

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self, parallelism: int) -> Sequence[str]:
        return [str(number) for number in range(PARTITIONS)]

    def open(self, partition: str, position: Any | None) -> Reader:
        return MeteredReader(self.meter, int(partition), position or 0)

    def describe(self) -> str:
        return "metered rows"


class MeteredReader(Reader):
    def __init__(self, meter: Path, partition: int, row: int) -> None:
        self._meter, self._partition, self._row = meter, partition, row

    def read(self, max_rows: int) -> Read:
        if self._row == ROWS:
            return ENDED
        first, last = self._row, min(self._row + min(max_rows, 100), int(self._meter.read_text()))
        if last <= first:
            return NOTHING
        self._row = last
        return Read(rows_of(self._partition, first, last))

    def left(self) -> int:
        """Return how many rows it may give now."""
        return max(0, int(self._meter.read_text()) - self._row)

    def position(self) -> int:
        return self._row


class Unsteady(Sink):
    """Looks at rows, and is away once the id of one is so great: until ``came_back`` says so, or for good (None)."""

    def __init__(self, away_at: int, came_back: Path | None) -> None:
        self.away_at, self.came_back = away_at, came_back

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        return _UnsteadyWriter(self)


class _UnsteadyWriter(Writer):
    def __init__(self, sink: Unsteady) -> None:
        self._sink = sink

    def write(self, rows: pa.RecordBatch) -> None:
        sink = self._sink
        if max(rows.column("id").to_pylist(), default=0) < sink.away_at:
            return
        if sink.came_back is not None:
            try:
                sink.came_back.touch(exist_ok=False)
            except FileExistsError:
                return
        raise RetryableError(f"what takes row {sink.away_at} is away")


class Slow(Sink):
    """Takes so many seconds for each batch."""

    def __init__(self, batch_s: float) -> None:
        self.batch_s = batch_s

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        return _SlowWriter(self.batch_s)


class _SlowWriter(Writer):
    def __init__(self, batch_s: float) -> None:
        self._batch_s = batch_s

    def write(self, rows: pa.RecordBatch) -> None:
        time.sleep(self._batch_s)


def refuse(at: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function of rows that raises at one of them."""

    def checked(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == at:
            raise ValueError(f"row {at} is not to be had")
        return row

    return checked


@dataclass(frozen=True)
class MeteredJob:
    """The job of a folder: rows as they are, in windows and in totals, written as Parquet and JSON lines."""

    folder: Path

    def give(self, rows: int) -> None:
        """Let the source give so many rows of each partition."""
        # It is read while it is written.
        draft = self.folder / "meter.draft"
        draft.write_text(str(rows))
        draft.rename(self.folder / "meter")

    def start(
        self,
        *,
        away_at: int | None = None,
        comes_back: bool = True,
        bad_at: int | None = None,
        batch_s: float | None = None,
        **options: Any,
    ) -> Handle:
        """Start it, with checkpoints unless ``checkpoint_dir`` is None.

        A sink is away at the row of an id, once or for good; a function fails at that of another. Another sink, of
        totals, takes ``batch_s`` for each batch.
        """
        job = ps.Job()
        numbers = ps.read(Metered(self.folder / "meter"), time="at", job=job).name("numbers")
        passed = numbers if bad_at is None else numbers.map(refuse(bad_at), on_error="fail").name("refusing")
        totals = self._write(passed)
        if batch_s is not None:
            totals.write(Slow(batch_s), mode="changelog").name("slow")
        if away_at is not None:
            passed.write(Unsteady(away_at, self.folder / "came back" if comes_back else None)).name("unsteady")
        return job.start("metered", **self._options(options))

    def run(self, **options: Any) -> JobMetrics:
        """Run it in this thread, with checkpoints."""
        job = ps.Job()
        self._write(ps.read(Metered(self.folder / "meter"), time="at", job=job).name("numbers"))
        return job.run("metered", **self._options(options))

    def _options(self, options: Mapping[str, Any]) -> Any:
        given = {"directory": self.folder / "job", "restart_delay": "1ms", **options}
        if given.setdefault("checkpoint_dir", self.folder / "checkpoints") is not None:
            given.setdefault("checkpoint_interval", "1h")
        return given

    def _write(self, numbers: ps.Stream) -> ps.Stream:
        """Write what comes of the rows, and return their totals."""
        out = self.folder / "out"
        numbers.filter(col("id") >= 0).name("all").write_parquet(out / "rows").name("rows")
        keyed = numbers.key_by("key")
        windows = keyed.window(ps.tumbling("1s")).agg(n=ps.count(), total=ps.sum_("id")).name("per second")
        windows.write_parquet(out / "windows").name("windows")
        totals = keyed.agg(n=ps.count(), total=ps.sum_("id")).name("per key")
        totals.write_json(out / "totals", mode="changelog").name("totals")
        return totals

    def check(self, rows: int = ROWS, *, closed: bool = True) -> None:
        """Hold the output against what DuckDB answers of so many rows of each partition: each row is there once.

        With ``closed`` windows have been written that are not over yet.
        """
        given = pa.Table.from_batches([rows_of(number, 0, rows) for number in range(PARTITIONS)])
        over_us = BEGIN_US + (2**50 if closed else (rows - 1) * 10_000)
        start = "time_bucket(INTERVAL 1 SECOND, given.at)"
        with duckdb.connect(config={"threads": 1}) as con:
            con.register("given", given)
            windows = con.sql(
                f"FROM (SELECT key, {start} AS window_start, {start} + INTERVAL 1 SECOND AS window_end, count(*) AS n, "
                f"sum(id)::BIGINT AS total FROM given GROUP BY ALL) WHERE epoch_us(window_end) <= {over_us}"
            ).to_arrow_table()
            totals = con.sql("SELECT key, count(*), sum(id)::BIGINT FROM given GROUP BY key").fetchall()
        assert_same_rows(self._table("rows"), given)
        assert_same_rows(self._table("windows"), windows)
        assert self._totals() == dict.fromkeys(totals, 1)

    def table_rows(self) -> int:
        """Return how many rows are in committed files."""
        return sum(pq.read_metadata(path).num_rows for path in (self.folder / "out" / "rows").glob("*.parquet"))

    def _table(self, name: str) -> pa.Table:
        return pa.concat_tables([pq.read_table(path) for path in (self.folder / "out" / name).glob("*.parquet")])

    def _totals(self) -> dict[tuple[int, int, int], int]:
        counts: Counter[tuple[int, int, int]] = Counter()
        for path in (self.folder / "out" / "totals").glob("*.jsonl"):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                counts[row["key"], row["n"], row["total"]] += row["weight"]
        return {values: count for values, count in counts.items() if count}


def until(condition: Callable[[], bool], handle: Handle | None = None) -> None:
    """Wait until something holds, while the job runs if one is given."""
    pause, until_s = threading.Event(), time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < until_s
        if handle is not None and not handle.running:
            handle.wait()
            raise AssertionError("the job has ended")
        pause.wait(0.01)


def task_managers() -> list[psutil.Process]:
    """Return the processes of task managers that this process has started, and that live.

    Other tests may have left it children of another kind, such as the JVM of Spark.
    """
    return [child for child in psutil.Process().children() if is_task_manager(child)]


def is_task_manager(process: psutil.Process) -> bool:
    try:
        return any(task_manager_process.__name__ in argument for argument in process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
