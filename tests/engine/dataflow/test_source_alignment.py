"""Sources of a job side by side: none runs ahead, none is held back for nothing, rows leave in time."""

from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.dsl.aggregates import count
from penstock.dsl.job import Job
from penstock.dsl.readers import read
from penstock.dsl.windows import tumbling
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.dataflow.worker import Done, Ran, Waiting
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.connectors import NOTHING, Read, Reader
from penstock.model.expressions import col
from tests.engine.scripted import MS, Scripts, rows
from tests.engine.support import ManualClock


def embedded(
    folder: Path, clock: ManualClock, *sources: Scripts, parallelism: int = 1
) -> tuple[EmbeddedJob, MemorySink]:
    """Count the rows of all sources by x, with an update after every batch."""
    job = Job()
    streams = [read(source, time="at", job=job).rebalance() for source in sources]
    sink = MemorySink()
    merged = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0].filter(col("x") >= 0)
    merged.write(sink)
    options = LoopOptions(batch_rows=80, idle_timeout_ms=1_000)
    return EmbeddedJob(JobPlan("test", job.plan(parallelism), options, folder), clock=clock), sink


def quiet(job: EmbeddedJob) -> Waiting | Done:
    while isinstance(outcome := job.worker.step(), Ran):
        pass
    return outcome


def test_rows_leave_in_time_although_another_source_is_behind(tmp_path: Path) -> None:
    clock = ManualClock()
    ahead = Scripts({"a": [NOTHING, rows(100), rows(200)]}, bounded=False)
    behind = Scripts({"b": [rows(50), *repeat(NOTHING, 5_000)]}, bounded=False)
    job, sink = embedded(tmp_path, clock, ahead, behind)
    asleep_ms = 0
    while True:
        outcome = quiet(job)
        assert isinstance(outcome, Waiting)
        if len(sink.rows()) == 2:
            break
        assert outcome.until_ns is not None
        assert outcome.until_ns > clock.monotonic_ns(), "the loop would spin"
        clock.advance_ns(outcome.until_ns - clock.monotonic_ns())
        asleep_ms += 1
        assert asleep_ms < 100
    assert clock.monotonic_ns() <= 12 * MS
    # The rows that came are ahead of the other source, so this one is not asked for more until that is idle.
    assert len(ahead.asked) == 2


def test_a_silent_source_holds_others_back_until_it_is_idle(tmp_path: Path) -> None:
    clock = ManualClock()
    ahead = Scripts({"a": [rows(second) for second in range(100, 110)]}, bounded=False)
    silent = Scripts({"b": repeat(NOTHING, 3_000)}, bounded=False)
    job, sink = embedded(tmp_path, clock, ahead, silent)
    while clock.monotonic_ns() < 900 * MS:
        assert isinstance(quiet(job), Waiting)
        clock.advance_ns(MS)
    assert len(ahead.asked) == 1
    while clock.monotonic_ns() < 1_100 * MS:
        quiet(job)
        clock.advance_ns(MS)
    assert len(sink.rows()) == 10
    asked = len(silent.asked)
    while clock.monotonic_ns() < 1_500 * MS:
        quiet(job)
        clock.advance_ns(MS)
    assert len(silent.asked) > asked + 10, "an idle source is still asked"


@pytest.mark.parametrize("parallelism", [2, 3])
def test_an_instance_without_partitions_holds_nobody_back(tmp_path: Path, parallelism: int) -> None:
    job = Job()
    source = Scripts({"a": [rows(10, 20), rows(70), *repeat(NOTHING, 9)]}, bounded=False)
    seen = MemorySink()
    read(source, time="at", job=job).window(tumbling(50e-6)).agg(n=count()).write(seen)
    runs = EmbeddedJob(JobPlan("test", job.plan(parallelism), LoopOptions(), tmp_path), clock=ManualClock())
    assert isinstance(quiet(runs), Waiting)
    assert [row["n"] for row in seen.rows()] == [2]


class Recorded(Scripts):
    """Keeps the event time of every batch in one list with other sources."""

    def __init__(self, name: str, times: Sequence[int], log: list[tuple[str, int]], size: int = 3) -> None:
        steps = [rows(*times[start : start + size]) for start in range(0, len(times), size)]
        super().__init__({name: steps})
        self.log = log

    def open(self, partition: str, position: Any | None) -> Reader:
        reader = super().open(partition, position)
        return RecordedReader(partition, reader, self.log)


class RecordedReader(Reader):
    def __init__(self, name: str, reader: Reader, log: list[tuple[str, int]]) -> None:
        self._name = name
        self._reader = reader
        self._log = log

    def read(self, max_rows: int) -> Read:
        got = self._reader.read(max_rows)
        if got.rows is not None:
            self._log.append((self._name, got.rows["at"].cast(pa.int64())[-1].as_py()))
        return got

    def position(self) -> Any:
        return None


def test_a_source_reads_on_when_no_other_began_its_last_batch_before(tmp_path: Path) -> None:
    log: list[tuple[str, int]] = []
    steady = Recorded("steady", range(0, 300, 2), log)
    sparse = Recorded("sparse", range(0, 300, 35), log, size=1)
    bursty = Recorded("bursty", [*range(20), *range(200, 300)], log, size=5)
    job, sink = embedded(tmp_path, ManualClock(), steady, sparse, bursty, parallelism=2)
    job.run()
    assert len(sink.rows()) == 150 + 9 + 120
    # Where the last batch of each began: at the time before it, the first one at 0.
    began, reached = ({"steady": -1, "sparse": -1, "bursty": -1} for _ in range(2))
    left = {name: [item for item in log if item[0] == name] for name in reached}
    for name, time in log:
        assert all(began[name] <= began[other] for other in reached if left[other])
        began[name], reached[name] = max(0, reached[name]), time
        left[name].pop(0)
