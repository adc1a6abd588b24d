"""Results of windows in which rows were dropped by SIC are biased from the first, before the head knows of drops."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import col
from penstock.engine.dataflow.worker import Ran
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.operators.sink_loss import SinkLoss
from penstock.engine.plan.query_routes import query_names
from penstock.model.config import LoopOptions
from penstock.model.function_sink import FunctionSink
from penstock.model.sic import Admission, SicGroup, SicTerms
from tests.engine.support import ManualClock

ROWS = 100
SECOND_NS = 1_000_000_000


class Seconds(ps.Source):
    """A row a second, all of which wait."""

    bounded = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("x", pa.int64()), ("at", pa.timestamp("us"))])

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["0"]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return _Seconds(self.schema)


class _Seconds(ps.Reader):
    def __init__(self, schema: pa.Schema) -> None:
        self._schema, self._at = schema, 0

    def read(self, max_rows: int) -> ps.Read:
        stop = min(ROWS, self._at + max_rows)
        if stop == self._at:
            return ps.Read()
        numbers, self._at = list(range(self._at, stop)), stop
        times = pa.array([number * 1_000_000 for number in numbers], pa.timestamp("us"))
        return ps.Read(pa.record_batch([pa.array(numbers), times], schema=self._schema))

    def position(self) -> int:
        return self._at

    def behind(self) -> int:
        return ROWS - self._at


@pytest.mark.parametrize("parallelism", [1, 2], ids=["one chain", "behind an exchange"])
@pytest.mark.parametrize("after", [True, False], ids=["then kept", "then dropped"])
def test_windows_with_drops_are_biased_before_the_head_has_counted_any(
    tmp_path: Path, parallelism: int, after: bool
) -> None:
    job, clock = ps.Job(), ManualClock()
    found: dict[int, bool] = {}

    def note(rows: pa.RecordBatch) -> None:
        for row in rows.to_pylist():
            start = row["window_start"].second + 60 * row["window_start"].minute
            found[start] = found.get(start, False) or row["biased"]
            assert row["biased"] == (row["accuracy"] < 1.0) and 0.0 <= row["accuracy"] <= 1.0

    rows = ps.read(Seconds(), time="at", job=job).name("seconds").filter(col("x") >= 0)
    windows = rows.key_by(side=col("x") % 2).window(ps.tumbling("10s")).agg(n=ps.count()).name("windows")
    windows.write(FunctionSink(note)).name("out").with_min_accuracy(0.1)
    plan = job.plan(parallelism)
    runs = EmbeddedJob(JobPlan("seconds", plan, LoopOptions(batch_rows=8), tmp_path), clock=clock)
    terms = SicTerms(query_names(plan.graph), {"seconds": (0.01,)}, (SicGroup("seconds", (0,)),), sheds="fair")
    runs.build.set_sic(terms)
    head = next(head for head in runs.build.heads() if "0" in head.positions())
    head.admit({"0": [Admission(25, True), Admission(10, False), Admission(65, after)]})
    for instance in runs.build.instances:
        instance.on_change()
    for _ in range(400):
        if not isinstance(runs.worker.step(), Ran):
            clock.advance_ns(50_000_000)
    # Behind an exchange results may come late, and whatever comes within 10 s of a drop is marked.
    assert parallelism > 1 or (found[0], found[10]) == (False, False)
    assert found[20]
    if after:
        assert found[30] and found[40]


def test_the_head_knows_better_and_drops_of_long_ago_do_not_count() -> None:
    loss, counted = SinkLoss(), [(1.0, 0.0)]
    loss.hear(1.0, lambda: counted[0])
    assert loss.share(5 * SECOND_NS) == 1.0
    counted[0] = (2.0, 1.0)
    assert loss.share(6 * SECOND_NS) == pytest.approx(2 / 3)
    loss.hear(0.5, lambda: counted[0])
    assert loss.share(7 * SECOND_NS) == 0.5
    loss.hear(1.0, lambda: counted[0])
    for second in range(8, 16):
        assert loss.share(second * SECOND_NS) < 1.0
    assert loss.share(17 * SECOND_NS) == 1.0
    # Nothing of the query has come since all of it was dropped.
    counted[0] = (2.0, 3.0)
    assert loss.share(18 * SECOND_NS) == 0.0
