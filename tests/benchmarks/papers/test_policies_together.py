"""QoD with each scaler on the simulated cluster: who acts, and that shedding hides no need.

docs/design/controllers.md 7 has the rules.
"""

from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.blind_view import as_if_nothing_were_shed
from penstock.benchmarks.papers.cluster_model.steered import SteeredRun
from penstock.engine.control.steering import OWNS, control_loop
from penstock.model.errors import OptionError
from penstock.model.plan import RescalePlan, ShedPlan
from tests.benchmarks.papers.drills import HIGH, HIGHEST, PARAMETERS, SCALERS, STEP_S, drill, shed_share

pytestmark = pytest.mark.slow


def end_s(scaler: str) -> float:
    """Return when a drill ends; Sage looks at ten minutes before it adds threads."""
    return 960.0 if scaler == "sage" else 420.0


@cache
def drilled(shape: str, *policies: str) -> SteeredRun:
    return drill(shape, *policies, until_s=end_s(policies[-1]))


def late_rate(run: SteeredRun) -> float:
    return float(run.series.task("processed", "rows")[-90:].mean())


def instances(run: SteeredRun) -> int:
    """Return how many instances the last decision saw."""
    return len(run.records[-1].decision.snapshot.instances)


def check_one_at_a_time(run: SteeredRun) -> None:
    """Assert that actions keep a distance, and that nothing was decided that failed to begin."""
    acted = sorted({record.time_s for name in (*SCALERS, "qod") for record in run.acted(name)})
    assert all(later - sooner >= 30.0 for sooner, later in pairwise(acted))
    assert not [
        r for r in run.records if r.outcome is not None and r.outcome.result == "refused" and r.decision.expectations
    ]


@pytest.mark.parametrize("scaler", SCALERS)
def test_under_a_flat_load_nobody_acts(scaler: str) -> None:
    run = drilled("flat", "qod", scaler)
    assert not run.acted(scaler) and not run.acted("qod")
    assert shed_share(run, 60.0) < 0.005


@pytest.mark.parametrize("scaler", SCALERS)
def test_after_a_step_up_the_scaler_acts_and_shedding_ends(scaler: str) -> None:
    run = drilled("step up", "qod", scaler)
    check_one_at_a_time(run)
    times = [record.time_s for record in run.acted(scaler)]
    assert times and times[0] > STEP_S and len(times) <= 3
    assert [effect for effect in run.effects if effect.action.policy == scaler and not effect.missing]
    alone = drilled("step up", scaler)
    assert late_rate(run) >= 0.98 * min(late_rate(alone), HIGH)
    plans = [r.decision.allowed for r in run.records if isinstance(r.decision.allowed, ShedPlan) and r.time_s > STEP_S]
    assert min(plans[0].desired_accuracy) < 1.0 and run.records[-1].time_s > times[-1]
    assert shed_share(run, end_s(scaler) - 90.0) < 0.02
    shedding_alone = drilled("step up", "qod")
    assert shed_share(shedding_alone, 330.0) > 0.3


@pytest.mark.parametrize("scaler", SCALERS)
def test_after_a_step_down_nothing_is_shed_and_nothing_grows(scaler: str) -> None:
    run = drilled("step down", "qod", scaler)
    check_one_at_a_time(run)
    before = len(run.records[0].decision.snapshot.instances)
    assert instances(run) <= before and shed_share(run, 330.0) < 0.01


@pytest.mark.parametrize("scaler", SCALERS)
def test_on_a_sine_less_is_shed_than_without_a_scaler(scaler: str) -> None:
    run, alone = drilled("sine", "qod", scaler), drilled("sine", "qod")
    check_one_at_a_time(run)
    assert run.acted(scaler)
    assert shed_share(run, 60.0) < shed_share(alone, 60.0)


@pytest.mark.parametrize("scaler", SCALERS)
def test_a_lost_machine_is_made_good(scaler: str) -> None:
    run = drilled("machine lost", "qod", "placement", scaler)
    moved = [r for r in run.records if r.decision.policy == "placement" and r.decision.acts]
    assert moved and moved[0].time_s < STEP_S + 30.0
    last = run.records[-1].decision.snapshot
    assert last.instances.is_running.all()
    assert "tm1" not in {last.machines.name[machine] for machine in last.instances.machine.tolist()}
    assert shed_share(run, end_s(scaler) - 90.0) < 0.02


@pytest.mark.parametrize("scaler", SCALERS)
def test_a_slow_service_lets_rows_wait_and_nothing_grow(scaler: str) -> None:
    run = drilled("slow service", "qod", scaler)
    lag = run.series.task("lag", "rows")
    assert lag[int(2 * STEP_S) - 5] > 3_000 and lag[-1] == pytest.approx(0.0, abs=100)
    assert not run.acted("qod") and not [record for record in run.acted(scaler) if record.time_s < 2 * STEP_S]
    # What a row costs is fitted to windows in which the service was slow, too, and an instance comes once it is not.
    assert len(run.acted(scaler)) == (scaler == "ds2-fitted")


@pytest.mark.parametrize("scaler", ["ds2", "flink-er"])
def test_without_the_guard_a_slow_service_lets_scalers_grow(scaler: str) -> None:
    """The negative control of the row above."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PARAMETERS, scaler, {"limits.slower": float("inf")})
        run = drill("slow service", "qod", scaler)
    assert [record for record in run.acted(scaler) if STEP_S < record.time_s < 2 * STEP_S]


@pytest.mark.parametrize("scaler", SCALERS)
def test_a_backlog_at_a_cold_start_passes_and_nobody_acts_for_it(scaler: str) -> None:
    run = drilled("cold start", "qod", scaler)
    lag = run.series.task("lag", "rows")
    assert lag[10] > 30_000 and lag[150] == pytest.approx(0.0, abs=100)
    assert not run.acted(scaler) and not run.acted("qod")


def rate_after_first_action(run: SteeredRun, scaler: str) -> float:
    """Return rows a second from 30 to 60 s after the scaler acted for the first time after the step."""
    acted = next(record.time_s for record in run.acted(scaler) if record.time_s > STEP_S)
    times = np.array(run.series.times_s)
    return float(run.series.task("processed", "rows")[(times > acted + 30) & (times <= acted + 60)].mean())


@pytest.mark.parametrize("scaler", ["ds2", "justin", "memory-choice", "flink-er"])
def test_fed_with_rates_after_shedders_and_not_told_of_them_a_scaler_does_not_reach_the_need(scaler: str) -> None:
    """The negative control of throughput under QoD: the same row, which holds with what was offered, must fail."""
    run = drilled("high step up", "qod", scaler)
    assert rate_after_first_action(run, scaler) >= 0.98 * HIGHEST
    blind = drill("high step up", "qod", scaler, views={scaler: as_if_nothing_were_shed}, sustained_cycles=10**6)
    assert rate_after_first_action(blind, scaler) < 0.9 * HIGHEST


def test_shedding_that_lasts_lets_a_scaler_decide_before_its_time() -> None:
    slow = {"ds2.pace.interval_s": 200.0, "ds2.pace.warm_up_s": 10.0, "ds2.factor": 0.3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PARAMETERS, "justin", slow)
        told = drill("step up", "qod", "justin")
        untold = drill("step up", "qod", "justin", sustained_cycles=10**6)
    first, later = told.acted("justin")[0].time_s, untold.acted("justin")[0].time_s
    assert first <= STEP_S + 40.0 and later >= 200.0
    plan = told.acted("justin")[0].decision.allowed
    assert isinstance(plan, RescalePlan) and plan.tasks[0].parallelism == 2


@pytest.mark.parametrize(("one", "other"), [*combinations(sorted(OWNS), 2)])
def test_two_owners_of_one_resource_are_refused(one: str, other: str) -> None:
    shared = set(OWNS[one]) & set(OWNS[other])
    if not shared:
        assert len(control_loop({one: {}, other: {}}).policies) == 2
        return
    with pytest.raises(OptionError, match=f"'{one}' and '{other}' both decide on .*: choose one"):
        control_loop({one: {}, other: {}})
