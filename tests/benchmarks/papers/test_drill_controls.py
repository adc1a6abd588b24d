"""Controls of the drills: with a part of what they hold taken out they must fail; and which pairs there are."""

from dataclasses import replace
from itertools import combinations

import pytest

from penstock.benchmarks.papers.cluster_model.blind_view import as_if_nothing_were_shed
from penstock.benchmarks.papers.cluster_model.steered import SteeredRun
from penstock.engine.control.chosen_policies import check_policies
from penstock.engine.control.steering import OWNS, control_loop
from penstock.model.control import KEEP_POLICIES, NOBODY, SHED, Control
from penstock.model.errors import OptionError
from penstock.model.plan import RescalePlan
from tests.benchmarks.papers.drilled_policies import (
    GROWS_S,
    SCALERS,
    SECONDS,
    SHRINKS_S,
    WITHOUT_DRILL,
    Options,
    is_legal,
    legal_pairs,
    representatives,
    sizes,
)
from tests.benchmarks.papers.drills import (
    BACKLOG,
    HIGH_STEP,
    HIGHEST,
    LOW,
    SHAPES,
    STEP_S,
    changes,
    cores,
    drill,
    instances,
    lag,
    shed_share,
    times,
)

pytestmark = pytest.mark.slow


def test_each_policy_is_in_a_pair_and_what_is_said_of_some_is_of_those_there_are() -> None:
    assert {name for pair in legal_pairs() for name in pair} == {*OWNS}
    assert all({name for pair in representatives(shape) for name in pair} == {*OWNS} for shape in SHAPES)
    assert {*GROWS_S} | {*SHRINKS_S} | {*SECONDS} <= {*SCALERS}
    assert {*WITHOUT_DRILL} == {*SHED} - {*KEEP_POLICIES, NOBODY} and all(WITHOUT_DRILL.values())


@pytest.mark.parametrize(("one", "other"), [*combinations(sorted(OWNS), 2)])
def test_two_owners_of_one_resource_are_refused(one: str, other: str) -> None:
    shared = set(OWNS[one]) & set(OWNS[other])
    assert is_legal(one, other) == (not shared)
    if not shared:
        assert len(control_loop({one: {}, other: {}}).policies) == 2
        return
    said = f"'{one}' and '{other}' both decide on .*: choose one"
    with pytest.raises(OptionError, match=said):
        control_loop({one: {}, other: {}})
    if sizes(one):
        with pytest.raises(OptionError, match=said):
            check_policies(Control(scale=(one, other), mode="act"))


@pytest.mark.parametrize("shed", [name for name in SHED if name != NOBODY])
@pytest.mark.parametrize("scaler", SCALERS)
def test_a_job_takes_each_way_to_shed_beside_each_scaler(shed: str, scaler: str) -> None:
    check_policies(Control(shed=shed, scale=scaler, mode="act"))


@pytest.mark.parametrize(
    ("scaler", "parameters"),
    [
        ("ds2", {"shrink_margin": float("inf")}),
        ("ds2-fitted", {"ds2.shrink_margin": float("inf")}),
        ("autoscaler", {"scale_down_wait_s": 3600.0}),
        ("justin", {"ds2.band.low": 0.0}),
    ],
)
def test_a_scaler_that_gives_nothing_back_keeps_what_it_had(scaler: str, parameters: dict[str, float]) -> None:
    """So do DS2 and its kin by the rule of their paper, which frees no second instance."""
    assert changes(drill(SHAPES["step down"], ("qod", scaler), Options({scaler: parameters}))) == 0


def test_whoever_sizes_whole_jobs_gives_cores_back_only_below_a_bound() -> None:
    run = drill(SHAPES["step down"], ("ds2", "sage"), Options({"sage": {"down": 1e-6}}))
    assert cores(run)[-1] == cores(run)[0] > 2 * LOW / 1000


@pytest.mark.parametrize("scaler", ["ds2", "flink-er", "autoscaler"])
def test_without_the_guard_a_slow_service_lets_scalers_grow(scaler: str) -> None:
    run = drill(SHAPES["slow service"], ("qod", scaler), Options({scaler: {"limits.slower": float("inf")}}))
    assert [record for record in run.acted(scaler) if STEP_S < record.time_s <= 2 * STEP_S]


def test_without_a_bound_of_steps_a_cold_start_asks_for_more_than_three_times_as_much() -> None:
    shape = replace(SHAPES["cold start"], waits=3 * BACKLOG, until_s=60.0)
    assert instances(drill(shape, ("qod", "flink-er"))).max() == 3
    unbounded = Options({"flink-er": {"limits.step_factor": 100.0}})
    assert instances(drill(shape, ("qod", "flink-er"), unbounded)).max() > 3


@pytest.mark.parametrize("scaler", ["ds2", "sage"])
def test_where_it_may_be_what_waited_at_the_start_is_shed(scaler: str) -> None:
    run = drill(replace(SHAPES["cold start"], of_all_s=60.0), ("qod", scaler), Options(sheds_backlog=True))
    assert lag(run)[1] > 0.9 * BACKLOG and shed_share(run, 0.0, 30.0) > 0.1


def rate_after_first_action(run: SteeredRun, scaler: str) -> float:
    """Return rows a second from 30 to 60 s after the scaler acted for the first time after the step."""
    acted_s = next(record.time_s for record in run.acted(scaler) if record.time_s > STEP_S)
    inside = (times(run) > acted_s + 30.0) & (times(run) <= acted_s + 60.0)
    return float(run.series.task("processed", "rows")[inside].mean())


@pytest.mark.parametrize(
    ("scaler", "parameters"),
    [("ds2", {}), ("flink-er", {}), ("justin", {"ds2.factor": 0.3}), ("memory-choice", {"ds2.factor": 0.3})],
)
def test_fed_with_rates_after_shedders_and_not_told_of_them_a_scaler_does_not_reach_the_need(
    scaler: str, parameters: dict[str, float]
) -> None:
    """Of Justin with little to spare: twice what is needed would hide it."""
    own = {scaler: parameters}
    assert rate_after_first_action(drill(HIGH_STEP, ("qod", scaler), Options(own)), scaler) >= 0.98 * HIGHEST
    views, never = {scaler: as_if_nothing_were_shed}, Options(own, {"sustained_cycles": 10**6})
    assert rate_after_first_action(drill(HIGH_STEP, ("qod", scaler), never, views), scaler) < 0.9 * HIGHEST


def test_shedding_that_lasts_lets_a_scaler_decide_before_its_time() -> None:
    slow = Options({"justin": {"ds2.pace.interval_s": 150.0, "ds2.pace.warm_up_s": 10.0}})
    told = drill(SHAPES["step up"], ("qod", "justin"), slow)
    never = Options(slow.parameters, {"sustained_cycles": 10**6})
    untold = drill(SHAPES["step up"], ("qod", "justin"), never)
    first = told.acted("justin")[0]
    assert first.time_s <= STEP_S + 40.0 and all(record.time_s >= 150.0 for record in untold.acted("justin"))
    assert isinstance(first.decision.allowed, RescalePlan) and first.decision.allowed.tasks[0].parallelism > 1
