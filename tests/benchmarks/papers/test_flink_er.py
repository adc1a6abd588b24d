"""The Flink-ER evaluation: its rows with few draws, and that it can refuse a policy that is wrong."""

from dataclasses import dataclass

import pytest

from penstock.benchmarks.papers.evaluation import Row
from penstock.benchmarks.papers.flink_er.rivals import Hottest
from penstock.benchmarks.papers.flink_er.run import run
from penstock.benchmarks.papers.flink_er.word_count import Case, parameters, ran, recovery_s, rescaled
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.flink_er import FlinkEr

pytestmark = pytest.mark.xdist_group("flink-er")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(run(0, 2, lambda what, done, whole: None).rows)


def test_the_headline_rows_are_met(rows: list[Row]) -> None:
    assert [row.row for row in rows if row.met is False] == []
    assert sum(row.met is True for row in rows) >= 7


def test_rivals_and_controls_stand_beside_them(rows: list[Row]) -> None:
    by_name = {row.row: row for row in rows}
    lag = by_name["lag over 1 s of input after the step"]
    assert lag.baseline is not None and lag.baseline.median > 3 * lag.ours.median
    gain = by_name["throughput by re-dispatch alone"]
    assert gain.control is not None and gain.control.median == pytest.approx(1.0)


@dataclass(frozen=True)
class WrongTask:
    """Grows the task that is wide, once."""

    def start(self) -> bool:
        return False

    def decide(self, snapshot: ClusterSnapshot, memory: bool) -> tuple[Decision, bool]:
        if memory or snapshot.time_s < 130:
            return NoChange("waits"), memory
        return RescalePlan("the wrong one", tasks=(TaskSize(snapshot.tasks.name.index("split"), 4),)), True


def test_a_policy_that_grows_the_wrong_task_is_shown_up() -> None:
    found, case = parameters(None), Case("count")
    _, right = ran(found, case, FlinkEr(), 3)
    _, wrong = ran(found, case, WrongTask(), 3)
    _, hottest = ran(found, case, Hottest(), 3)
    assert len(rescaled(wrong)) == 1
    assert recovery_s(found, right) < 60 < recovery_s(found, wrong)
    assert recovery_s(found, right) <= recovery_s(found, hottest)


def test_a_seed_gives_the_same_again() -> None:
    found, case = parameters(7), Case("split")
    first, again = (ran(found, case, FlinkEr(), 7)[1] for _ in range(2))
    assert [record.decision for record in first.records] == [record.decision for record in again.records]
    assert first.series.task("lag", "lines").tolist() == again.series.task("lag", "lines").tolist()
