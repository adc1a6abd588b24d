"""What readers know of their logs is in the snapshot; by it load shedding tells whether a job keeps up."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.control.cluster_snapshot import cluster_snapshot
from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.reading import read_counters
from penstock.engine.control.start_control import RECOMMENDED
from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.connectors import NOTHING, Read, Reader, Source
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.plan import NoChange, ShedPlan
from penstock.model.snapshot import ClusterSnapshot, MachineColumns, PartitionColumns
from tests.engine.control.readings import MANAGERS, OPTIONS, SECOND_NS, TICKS, job_places, machine, part, ran

SCHEMA = pa.schema({"id": pa.int64()})
CLOCK = SystemClock()


class Due(Source):
    """Rows that are due when a test says so."""

    bounded = False

    def __init__(self) -> None:
        self.due = 0

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["0"]

    def open(self, partition: str, position: Any | None) -> Reader:
        return _DueReader(self)


class _DueReader(Reader):
    def __init__(self, source: Due) -> None:
        self._source, self._row = source, 0

    def read(self, max_rows: int) -> Read:
        first, self._row = self._row, min(self._source.due, self._row + 100)
        return Read(pa.record_batch([np.arange(first, self._row)], schema=SCHEMA)) if self._row > first else NOTHING

    def position(self) -> int:
        return self._row

    def behind(self) -> int:
        return self._source.due - self._row

    def appended(self) -> int:
        return self._source.due


def job_of(read: Callable[[ps.Job], ps.Stream], folder: Path) -> EmbeddedJob:
    job = ps.Job()
    read(job).write_black_hole()
    return EmbeddedJob(JobPlan("test", job.plan(1), OPTIONS, folder), clock=CLOCK)


def steps(job: EmbeddedJob, count: int) -> None:
    """Let the loop make so many steps."""
    left = iter(range(count))
    assert job.attempt.proceed(lambda: next(left, None) is None, None, None) is None


def logs(snapshot: ClusterSnapshot) -> dict[str, list[float] | None]:
    columns = PartitionColumns.__dataclass_fields__
    values = {name: getattr(snapshot.partitions, name) for name in columns if name != "lag_max"}
    return {name: None if column is None else column.tolist() for name, column in values.items()}


def windowed(job: EmbeddedJob, between: Any) -> ClusterSnapshot:
    """Return the snapshot of a window in which something is done."""
    began_ns = CLOCK.monotonic_ns() - 1
    before = read_counters(job.build, OPTIONS, began_ns, CLOCK.monotonic_ns())
    between()
    after = read_counters(job.build, OPTIONS, began_ns, CLOCK.monotonic_ns())
    return cluster_snapshot("test", 1, before, after, MachineColumns(("here",), np.array([1.0])))


def test_a_source_with_a_rate_says_what_is_due_and_what_was_read(tmp_path: Path) -> None:
    source = Due()
    job = job_of(lambda job: ps.read(source, job=job), tmp_path)
    source.due = 50
    steps(job, 20)

    def more() -> None:
        source.due = 10_050
        steps(job, 3)

    snapshot = windowed(job, more)
    taken = snapshot.partitions.consumed
    assert taken is not None and 0 < taken[0] < 10_000
    assert logs(snapshot) == {
        "instance": [0],
        "appended": [10_000.0],
        "consumed": taken.tolist(),
        "end_offset": [10_050.0],
        "position": [50.0 + taken[0]],
    }


def test_a_generator_that_never_ends_is_offered_what_it_makes(tmp_path: Path) -> None:
    job = job_of(lambda job: ps.read_nexmark("bid", ps.NexmarkConfig(), job=job), tmp_path)
    figures = logs(windowed(job, lambda: steps(job, 5)))
    assert figures["appended"] == figures["consumed"] != [0.0]
    assert figures["end_offset"] == figures["position"]


@pytest.mark.parametrize("endless", [False, True])
def test_what_is_not_known_of_a_source_is_missing_and_not_nothing(endless: bool, tmp_path: Path) -> None:
    """Of rows in files and of an iterator nobody knows how many there are."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1}\n' * 10_000)

    def read(job: ps.Job) -> ps.Stream:
        if endless:
            return ps.read_iterable(({"id": number} for number in range(10**9)), schema={"id": int}, job=job)
        return ps.read_json(path, schema={"id": int}, job=job)

    job = job_of(read, tmp_path)
    assert logs(windowed(job, lambda: steps(job, 1))) == {
        "instance": [],
        "appended": None,
        "consumed": None,
        "end_offset": None,
        "position": None,
    }


def test_what_has_ended_is_offered_nothing(tmp_path: Path) -> None:
    job = job_of(lambda job: ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job), tmp_path)
    assert job.attempt.proceed(lambda: False, None, None) is None
    figures = logs(windowed(job, lambda: None))
    assert figures["appended"] == [0.0] and figures["position"] == figures["end_offset"] == [92.0]


def plan() -> ExecutionGraph:
    job = ps.Job()
    ps.read(Due(), job=job).name("due").write_black_hole().name("sink").with_min_accuracy(0.25)
    return job.plan(2)


def live(path: Path, offered: float, taken: float, cpu_s: float) -> list[Any]:
    """Let two task managers run a source each for 25 s, which is offered and takes so many rows/s; decide again."""
    control = JobControl("test", plan(), OPTIONS, 0, DecisionLog(path, print), LoadShedding(plan(), RECOMMENDED))
    names = [name for task in plan().tasks for name in plan().instances(task)]
    places = dict(zip(names, MANAGERS, strict=True))
    for second in range(1, 5 * TICKS + 1):
        for number, name in enumerate(MANAGERS):
            rows = {(0, number): ran(second, cpu_s * second, taken * second)}
            logs = {(0, number): (taken * second, (offered - taken) * second, offered * second)}
            reading = machine(second, cpu_s * second, [cpu_s * second], first=number)
            control.hear(name, reading, part(second, rows, logs), second * SECOND_NS)
        control.tick(job_places(places), second * SECOND_NS)
    control.close()
    decided = list(redecide(path, "qod", {}))
    assert all(each.same for each in decided)
    return [each.decision for each in decided]


def test_of_an_overloaded_job_shedding_is_recommended_with_its_reason(tmp_path: Path) -> None:
    decisions = live(tmp_path / "log", offered=2_000.0, taken=1_000.0, cpu_s=0.95)
    last = decisions[-1]
    assert isinstance(last, ShedPlan) and last.reason == "1 of 1 queries shed"
    # Half of what comes can be taken by a full core, and what waits is to be drained besides.
    assert 0.25 <= last.source_keep[0] <= 0.55
    assert last.numbers["queries_shed"] == 1


def test_of_a_job_that_keeps_up_nothing_is_to_be_shed(tmp_path: Path) -> None:
    last = live(tmp_path / "log", offered=1_000.0, taken=1_000.0, cpu_s=0.5)[-1]
    assert isinstance(last, NoChange) and last.reason == "all queries at full accuracy"
