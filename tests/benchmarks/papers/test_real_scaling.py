"""QoD beside a scaler on real parts: its application, and figures of runs whose answers are known."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.benchmarks.papers.economics.real_scaling import (
    ALONE,
    BLIND,
    CORES,
    INSTANCE_ROWS_PER_S,
    INSTANCES,
    LOADS,
    LOOK,
    MINIMUM,
    QUERY,
    ROW_S,
    TOGETHER,
    BlindDs2,
    scaling_cases,
)
from penstock.benchmarks.papers.economics.real_scaling_rows import (
    most_waiting_s,
    reached,
    scaling_rows,
    shed_share,
)
from penstock.benchmarks.papers.evaluation import Row
from penstock.benchmarks.papers.real.application import Application, Setting, attribute
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.schedule import Phase, rows_due
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.engine.control.steering import scaler
from penstock.model.control import Control
from penstock.model.plan import Decision, NoChange, RescalePlan
from penstock.model.snapshot import PartitionColumns
from penstock.scheduler.ds2 import Ds2
from tests.scheduler.scaling_jobs import Job, Task, measured

PHASES = (Phase(100.0, 20.0), Phase(200.0, 120.0))
STEP_S, END_S = 20.0, 140.0


def application(case: RealCase) -> Application:
    made: Application = attribute(case.application)(
        Setting("127.0.0.1:1", tuple(case.topics), Path("unused"), None, case.options)
    )
    return made


def test_what_looks_is_a_task_of_its_own_and_may_be_scaled_and_shed_before() -> None:
    together, alone, blind = scaling_cases(Scale.SHORT)
    assert [case.name for case in (together, alone, blind)] == [TOGETHER, ALONE, BLIND]
    for case in (together, alone, blind):
        plan = application(case).job.plan(case.start["parallelism"], apart=True)
        own = [task for task in plan.tasks if plan.name(task) == LOOK]
        assert [task.parallelism for task in own] == [INSTANCES]
        assert case.loads[0][0] < 0.8 * INSTANCES and INSTANCES < case.loads[1][0] <= 0.8 * CORES
        assert scaler(Control(**case.control)).role.owns == scaler(Control(**together.control)).role.owns
    assert MINIMUM * LOADS[1] < INSTANCES
    assert INSTANCE_ROWS_PER_S < 1 / ROW_S
    assert "shed" not in alone.control and not alone.options and together.options == blind.options != {}


def test_a_scaler_that_is_not_told_wants_no_more_than_what_was_let_through() -> None:
    """A source is offered 80 rows/s and lets 40 through, and an instance takes 50."""
    seen = measured(Job([Task("bids", None), Task("look", 50.0)], [(0, 1, 1.0)], 40.0))
    rows = np.array([80.0 * seen.window_s])
    snapshot = replace(
        seen,
        tasks=replace(seen.tasks, target_rate=np.full(2, np.nan)),
        partitions=PartitionColumns(np.array([0]), rows, rows),
    )

    def wanted(policy: Ds2) -> Decision:
        memory = policy.start()
        decision: Decision = NoChange("")
        for number in range(1, 20):
            at_s = snapshot.time_s + number * snapshot.window_s
            decision, memory = policy.decide(replace(snapshot, number=number, time_s=at_s), memory)
            if isinstance(decision, RescalePlan):
                break
        return decision

    told, blind = wanted(Ds2()), wanted(BlindDs2())
    assert isinstance(told, RescalePlan) and [size.parallelism for size in told.tasks] == [2]
    assert isinstance(blind, NoChange)


def kept_run(folder: Path, numbers: Sequence[tuple[float, int]], kept: float, late: float, waits: float) -> SeenRun:
    """Write a run with so many instances from these times on.

    ``kept`` of the rows pass after the step, and ``late`` from a minute after it on; ``waits`` rows are not read then.
    """
    folder.mkdir(parents=True)
    at_s = np.arange(0.0, END_S + 1.0)
    offered = np.array([rows_due(PHASES, float(at)) for at in at_s], np.float64)
    share = np.where(at_s <= STEP_S, 1.0, np.where(at_s <= STEP_S + 60.0, kept, late))
    taken = np.concatenate([[0.0], np.cumsum(np.diff(offered) * share[1:])])
    unread = np.where((at_s > STEP_S) & (at_s <= STEP_S + 60.0), waits, 0.0)
    samples: list[dict[str, Any]] = [
        {
            "at_ns": int(at * 1e9), "read": {"bids": rows - behind + 1e-9}, "taken": {LOOK: through},
            "shed": rows - through,
            "instances": {"bids": 1, LOOK: [number for since, number in numbers if since <= at][-1], "count": 1},
        }
        for at, rows, through, behind in zip(
            at_s.tolist(), offered.tolist(), taken.tolist(), unread.tolist(), strict=True
        )
    ]  # fmt: skip
    run = {
        "case": {"topics": ["bids"]}, "capacity": 100.0, "capacity_after": 100.0,
        "phases": [asdict(phase) for phase in PHASES], "begin_ns": 0, "job_begun_ns": -1, "broker_cpu_s": 1.0,
        "queries": {QUERY: {"operator": LOOK, "topics": ["bids"]}}, "exact": None,
        "injected": [
            {"at_ns": int(at * 1e9), "cpu_s": 0.0, "delivered": {"bids": [rows]}}
            for at, rows in zip(at_s.tolist(), offered.tolist(), strict=True)
        ],
        "samples": samples,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    return SeenRun(folder)


GREW, STAYED = ((0.0, 2), (35.0, 4)), ((0.0, 2),)


def test_rates_are_those_of_the_end_and_what_waits_is_the_most(tmp_path: Path) -> None:
    grew = kept_run(tmp_path / "grew", GREW, 0.5, 1.0, 400.0)
    assert reached(grew) == pytest.approx(1.0) and shed_share(grew) == pytest.approx(0.0, abs=1e-9)
    assert most_waiting_s(grew) == pytest.approx(2.0, rel=0.01)
    stayed = kept_run(tmp_path / "stayed", STAYED, 0.6, 0.6, 0.0)
    assert reached(stayed) == pytest.approx(0.6) and shed_share(stayed) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("late", "blind", "waits", "met"),
    [
        (1.0, 0.6, 10.0, [True, True, True]),
        (0.95, 0.6, 10.0, [False, False, True]),
        (1.0, 0.95, 10.0, [False, True, True]),
        (1.0, 0.6, 1_000.0, [True, True, False]),
    ],
)
def test_both_are_held_against_the_scaler_alone_and_one_that_is_not_told(
    tmp_path: Path, late: float, blind: float, waits: float, met: list[bool]
) -> None:
    runs = {
        TOGETHER: [kept_run(tmp_path / "a", GREW, 0.5, late, waits)],
        ALONE: [kept_run(tmp_path / "b", GREW, 1.0, 1.0, 800.0)],
        BLIND: [kept_run(tmp_path / "c", STAYED, blind, blind, 10.0)],
    }
    made: list[Row] = list(scaling_rows(runs))
    assert [row.met for row in made] == met and all(row.real for row in made)
    assert "qod-ds2: 2 to 4" in made[0].note and "qod-ds2-blind: 2" in made[0].note
    assert list(scaling_rows({ALONE: runs[ALONE]})) == []
    assert next(iter(scaling_rows({TOGETHER: runs[TOGETHER]}))).met is None
