"""Two scalers of one job on the simulated cluster: Sage sizes the whole job, another one says its parallelism."""

from itertools import pairwise

import pytest

from penstock.benchmarks.papers.cluster_model.steered import SteeredRun
from penstock.engine.control.steering import OF_A_JOB
from penstock.model.plan import RescalePlan
from tests.benchmarks.papers.drills import HIGH, PARAMETERS, STEP_S, drill, shed_share

pytestmark = pytest.mark.slow

SIZING = ("ds2", "autoscaler", "justin", "flink-er")
"""Who says parallelism beside Sage; the others of the table own the same."""

READS_AND_WORKS = {name: OF_A_JOB[name] for name in ("ds2", "justin")}
"""The task that works is the one that reads, as what needs no exchange is chained to its source: so on a job."""


@pytest.fixture(autouse=True)
def _of_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, given in READS_AND_WORKS.items():
        monkeypatch.setitem(PARAMETERS, name, {**PARAMETERS[name], **given})


def together(shape: str, sizing: str, until_s: float = 600.0) -> SteeredRun:
    """Run a drill and check that each decides on its own, one at a time."""
    run = drill(shape, "sage", sizing, until_s=until_s)
    for record in run.acted("sage"):
        plan = record.decision.allowed
        assert isinstance(plan, RescalePlan) and not plan.tasks
        assert all(given.threads is None for given in plan.applications)
    for record in run.acted(sizing):
        plan = record.decision.allowed
        assert isinstance(plan, RescalePlan) and not plan.applications
    acted = sorted({record.time_s for name in ("sage", sizing) for record in run.acted(name)})
    assert all(later - sooner >= 30.0 for sooner, later in pairwise(acted))
    return run


@pytest.mark.parametrize("sizing", SIZING)
def test_under_a_flat_load_neither_acts(sizing: str) -> None:
    run = together("flat", sizing)
    assert not run.acted("sage") and not run.acted(sizing)


@pytest.mark.parametrize("sizing", SIZING)
def test_after_a_step_up_there_are_instances_and_cores_for_it(sizing: str) -> None:
    run = together("step up", sizing)
    times = [record.time_s for record in run.acted(sizing)]
    assert times and times[0] > STEP_S
    assert float(run.series.task("processed", "rows")[-90:].mean()) >= 0.98 * HIGH
    assert shed_share(run, 510.0) < 0.02


@pytest.mark.parametrize("sizing", SIZING)
def test_after_a_step_down_nothing_grows(sizing: str) -> None:
    run = together("step down", sizing)
    before, after = (run.records[place].decision.snapshot for place in (0, -1))
    assert len(after.instances) <= len(before.instances) and shed_share(run, 330.0) < 0.01
