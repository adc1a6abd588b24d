"""Admissions at a source: stretches that are read or dropped, branches at which rows are dropped, account, log, SIC."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import col
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.worker import Ran
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.operators.sink import SinkOperator
from penstock.engine.plan.query_routes import query_names
from penstock.model.config import LoopOptions
from penstock.model.function_sink import FunctionSink
from penstock.model.sic import Admission, SicGroup, SicTerms
from penstock.shedding.kept_log import merged
from tests.engine.support import ManualClock

ROWS = 100


class Numbers(ps.Source):
    """The numbers from 0 to 99, all of which wait."""

    bounded = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("x", pa.int64())])

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["0"]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return _Numbers(self.schema)


class _Numbers(ps.Reader):
    def __init__(self, schema: pa.Schema) -> None:
        self._schema, self._at = schema, 0

    def read(self, max_rows: int) -> ps.Read:
        stop = min(ROWS, self._at + max_rows)
        if stop == self._at:
            return ps.Read()
        numbers, self._at = pa.array(range(self._at, stop)), stop
        return ps.Read(pa.record_batch([numbers], schema=self._schema))

    def position(self) -> int:
        return self._at

    def behind(self) -> int:
        return ROWS - self._at


class Run:
    """A job of two queries on one source, step by step."""

    def __init__(self, folder: Path) -> None:
        job, self.clock = ps.Job(), ManualClock()
        self.found: dict[str, list[int]] = {"few": [], "many": []}
        rows = ps.read(Numbers(), job=job).name("numbers").filter(col("x") >= 0).name("all")
        for name, minimum in (("few", 0.1), ("many", 0.5)):
            side = rows.select(x=col("x") * 1).name(f"{name} side")
            side.write(FunctionSink(self._note(name))).name(name).with_min_accuracy(minimum)
        plan = job.plan(1)
        self.queries = query_names(plan.graph)
        self.runs = EmbeddedJob(JobPlan("numbers", plan, LoopOptions(batch_rows=8), folder), clock=self.clock)
        self.branches = [f"all>{name} side" for name in ("few", "many")]
        number = {name: place for place, name in enumerate(self.queries)}
        groups = [SicGroup("numbers", (number[name],), (f"all>{name} side",)) for name in ("few", "many")]
        self.build.set_sic(SicTerms(self.queries, {"numbers": (0.5, 0.25)}, tuple(groups), sheds="fair"))

    def _note(self, name: str) -> Any:
        return lambda rows: self.found[name].extend(rows.column("x").to_pylist())

    @property
    def build(self) -> Build:
        return self.runs.build

    def admit(self, *admissions: Admission) -> None:
        (head,) = self.build.heads()
        head.admit({"0": admissions})
        self.build.instances[0].on_change()
        for _ in range(60):
            if not isinstance(self.runs.worker.step(), Ran):
                self.clock.advance_ns(50_000_000)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_only_what_is_admitted_is_read_and_the_rest_waits(run: Run) -> None:
    run.admit(Admission(10, False), Admission(20, True))
    assert run.found == {"few": list(range(10, 30)), "many": list(range(10, 30))}
    assert run.build.heads()[0].waiting(old=True) == {"0": 70}
    assert not run.build.heads()[0].unread()
    run.admit(Admission(70, False))
    assert run.found["many"] == list(range(10, 30))


def test_a_row_can_be_dropped_for_one_query_and_kept_for_the_other(run: Run) -> None:
    run.admit(Admission(30, True, (run.branches[0],)), Admission(70, True))
    assert run.found == {"few": list(range(30, ROWS)), "many": list(range(ROWS))}


def test_account_log_and_sic_say_what_was_dropped(run: Run) -> None:
    run.admit(Admission(10, False), Admission(30, True, (run.branches[0],)), Admission(60, True))
    for counters in run.build.counters.values():
        assert all(each.balanced() for each in counters)
    (source,) = run.build.counters[next(iter(run.build.graph.tasks)).head]
    assert (source.rows_in, source.shed) == (100, 10)
    log = merged(run.build.take_stretches())
    assert [(item.start, item.stop, item.keep, item.branches, item.sic) for item in log] == [
        (0, 10, 0.0, {}, True),
        (10, 40, 1.0, {run.branches[0]: 0.0}, True),
        (40, 100, 1.0, {}, True),
    ]
    head = run.build.heads()[0]
    assert head.sic is not None
    few, many = run.queries.index("few"), run.queries.index("many")
    share = (0.5, 0.25)
    assert head.sic.generated.tolist() == [50.0, 25.0]
    assert head.sic.admitted[few] == 60 * share[few] and head.sic.admitted[many] == 90 * share[many]
    delivered = {
        node.name: node.sic.total()
        for instance in run.build.instances
        for node in instance.nodes
        if isinstance(node.operator, SinkOperator)
    }
    assert delivered["few"][few] == pytest.approx(60 * share[few], rel=1e-9)
    assert delivered["many"][many] == pytest.approx(90 * share[many], rel=1e-9)
