"""Sage sizes jobs that run: what a job lacks it gets, in order, and what one gives up another on the quota takes."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.engine.control import quota_file
from penstock.engine.control.decision_replay import redecide
from tests.contracts.executors.metered import until

SCHEMA = pa.schema([("key", pa.int64()), ("at", pa.timestamp("us"))])
PARTITIONS, KEYS = 4, 31
WINDOWS = 1 / 60
"""Minutes of the paper's windows are seconds here."""

pytestmark = pytest.mark.slow


class Paced(ps.Source):
    """Rows that come at a rate since a file was made, without end."""

    bounded = False
    aligned = False

    def __init__(self, folder: Path, rate: float) -> None:
        self.folder, self.rate = folder, rate

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self, parallelism: int) -> Sequence[str]:
        return [str(number) for number in range(PARTITIONS)]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return _PacedReader(self, int(partition), position or 0)


class _PacedReader(ps.Reader):
    def __init__(self, source: Paced, partition: int, row: int) -> None:
        self._source, self._partition, self._row = source, partition, row

    def read(self, max_rows: int) -> ps.Read:
        last = min(self._due(), self._row + max_rows)
        if last <= self._row:
            return ps.Read(again_us=5_000)
        first, self._row = self._row, last
        return ps.Read(rows_of(self._partition, first, last), again_us=5_000)

    def position(self) -> int:
        return self._row

    def behind(self) -> int:
        return max(0, self._due() - self._row)

    def appended(self) -> int:
        return self._due()

    def _due(self) -> int:
        # All processes count from the same moment.
        seconds = time.time() - (self._source.folder / "begun").stat().st_mtime
        return int(seconds * self._source.rate / PARTITIONS)


def rows_of(partition: int, first: int, last: int) -> pa.RecordBatch:
    numbers = [number * PARTITIONS + partition for number in range(first, last)]
    times = pa.array([1_700_000_000_000_000 + number * 1_000 for number in numbers]).cast(pa.timestamp("us"))
    return pa.record_batch([pa.array([number % KEYS for number in numbers]), times], schema=SCHEMA)


class Waits(ps.Process):
    """A row waits for 2 ms, as for an answer, which takes no core."""

    def process(self, row: dict[str, Any], context: Any) -> dict[str, Any]:
        time.sleep(0.002)
        return {"key": row["key"], "at": row["at"]}


class Burns(ps.Process):
    """A row takes a millisecond of a core."""

    def process(self, row: dict[str, Any], context: Any) -> dict[str, Any]:
        until_s = time.thread_time() + 0.001
        while time.thread_time() < until_s:
            pass
        return {"key": row["key"], "at": row["at"]}


@dataclass(frozen=True)
class Sized:
    """A job under Sage, alone or beside another scaler, in a folder of its own."""

    folder: Path
    name: str

    def start(self, rate: float, work: type[ps.Process], control: Mapping[str, Any], **options: Any) -> Handle:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "begun").touch()
        job = ps.Job()
        read = ps.read(Paced(self.folder, rate), time="at", job=job).name("steps").parallelism(2)
        worked = read.key_by("key").process(work, SCHEMA, order="arrival").name("worked")
        worked.write_parquet(self.folder / "out").name("out")
        given: dict[str, Any] = {
            "executor": "processes", "task_managers": 1, "parallelism": 1, "directory": self.folder / "job",
            "checkpoint_dir": self.folder / "checkpoints", "checkpoint_interval": "1s", "batch_rows": 25,
            "channel_bytes": 32_768, "state_bytes": 8 << 20,
            "action_log": self.folder / "actions.jsonl",
        }  # fmt: skip
        sage = ps.Control(**{"scale": "sage", "mode": "act", "parameters": {"sage.windows": WINDOWS}, **control})
        return job.start(self.name, **{**given, **options}, control=sage)

    def over(self, handle: Handle) -> None:
        """End the job, and hold what it wrote against what its source gave: of each partition the first rows, once."""
        handle.stop(drain=True)
        table = pa.concat_tables([pq.read_table(path) for path in (self.folder / "out").glob("*.parquet")])
        keys, times = table.column("key").to_numpy(), table.column("at").cast(pa.int64()).to_numpy()
        numbers = (times - 1_700_000_000_000_000) // 1_000
        assert len(numbers) and (keys == numbers % KEYS).all()
        for partition in range(PARTITIONS):
            rows = np.sort(numbers[numbers % PARTITIONS == partition] // PARTITIONS)
            assert (rows == np.arange(len(rows))).all()

    def actions(self, policy: str = "sage") -> list[str]:
        """Return what a policy has done, in order: the reasons of the log."""
        log = self.folder / "actions.jsonl"
        # The last line may be on its way.
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        entries = [json.loads(line) for line in lines]
        own = [entry for entry in entries if entry.get("policy") == policy]
        decided = {entry["snapshot"]: entry["decision"] for entry in own if entry["kind"] == "decision"}
        applied = [it["snapshot"] for it in own if it["kind"] == "result" and it["outcome"] == "applied"]
        return [decided[number]["reason"] for number in applied]


def test_a_job_that_lacks_task_managers_gets_them_and_its_answer_is_exact(tmp_path: Path) -> None:
    sized = Sized(tmp_path / "one", "short-of-threads")
    handle = sized.start(700.0, Waits, {"cores": 4, "first_cores": 2.0})
    until(lambda: bool(sized.actions()), handle)
    sized.over(handle)
    (first, *_) = sized.actions()
    assert "parallelism up, 1 -> " in first
    assert all(item.same for item in redecide(tmp_path / "one" / "actions.jsonl", "sage", {}))


@pytest.mark.long("its core must be free; tests/scheduler/test_sage.py has the order of the rules")
def test_a_job_that_lacks_cpu_gets_it_before_task_managers(tmp_path: Path) -> None:
    sized = Sized(tmp_path / "one", "short-of-cpu")
    handle = sized.start(300.0, Burns, {"cores": 4, "first_cores": 0.3})
    until(lambda: any("CPU up" in reason for reason in sized.actions()), handle)
    sized.over(handle)
    reasons = sized.actions()
    assert "CPU up, 0.3 -> 0.45" in reasons[0] and not any("parallelism up" in reason for reason in reasons)


def test_what_one_job_gives_up_another_of_the_quota_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_file.tempfile, "gettempdir", lambda: str(tmp_path))
    quota = {"quota": "team", "cores": 1.2}
    large, small = Sized(tmp_path / "large", "large"), Sized(tmp_path / "small", "small")
    has = large.start(50.0, Burns, {**quota, "first_cores": 0.9})
    wants = small.start(300.0, Burns, {**quota, "first_cores": 0.3})
    until(lambda: any("CPU down" in reason for reason in large.actions()), has)
    until(lambda: any("CPU up" in reason for reason in small.actions()), wants)
    for sized, handle in ((small, wants), (large, has)):
        sized.over(handle)
    seen = list(redecide(tmp_path / "small" / "actions.jsonl", "sage", {}))
    held = [each.snapshot.applications for each in seen if len(each.snapshot.applications) == 2]
    assert held and all(each.cores is not None and each.cores.sum() <= 1.2 + 1e-6 for each in held)
    refused = [each.decision.reason for each in seen if "the quota of all applications" in each.decision.reason]
    assert refused and all(item.same for item in seen)
