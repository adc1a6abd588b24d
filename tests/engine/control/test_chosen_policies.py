"""Who sheds, who places and who scales: chosen by name or as a class of a user's, with parameters of each."""

from pathlib import Path
from typing import Any

import pytest

from penstock.engine.control.chosen_policies import check_policies, who_places, who_sheds
from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.levers import Levers
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.policies import parameters_of
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.running_limits import RunningLimits
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions, Limits
from penstock.model.errors import OptionError
from tests.engine.control.own_policies import HERE
from tests.engine.control.readings import MANAGERS, SECOND_NS, graph, hear_burner, job_places
from tests.engine.control.simulated_stream import SimulatedStream, one_query
from tests.engine.control.test_scale_control import lines

KEEP, ON_ONE, EVERYTHING = f"{HERE}:KeepShare", f"{HERE}:OnOne", f"{HERE}:Everything"


def refusal(**control: Any) -> str:
    with pytest.raises(OptionError) as refused:
        check_policies(Control(**{"mode": "act", **control}))
    return str(refused.value)


def test_parameters_are_those_of_the_policy_whose_name_they_begin_with() -> None:
    control = Control(
        "qod",
        scale="ds2",
        parameters={"pace.interval_s": 20, "qod": {"reading": {"drain_s": 3.0}}, "placement.equal_within_percent": 9.0},
    )
    check_policies(control)
    shed, place = parameters_of(who_sheds(control, "qod")), parameters_of(who_places(control))
    assert shed["reading.drain_s"] == 3.0 and shed["moves"] is False and shed["period_s"] == 3.75
    assert place["equal_within_percent"] == 9.0 and place["in_turn"] is True
    assert control.parameters_of("ds2") == {"pace.interval_s": 20}
    # Without any they are as they were.
    usual = parameters_of(who_sheds(Control("both", "act"), "both", moves=True))
    assert usual["reading.drain_s"] == 8.75 and usual["moves"] is True


def test_a_part_of_the_scaler_that_has_a_policys_name_is_its_own() -> None:
    control = Control(scale="justin", parameters={"ds2": {"band": {"lag_s": 2.0}}})
    assert control.parameters_of("justin") == {"ds2.band.lag_s": 2.0} and control.parameters_of("ds2") == {}
    check_policies(control)


@pytest.mark.parametrize(
    ("control", "sentence"),
    [
        (
            {"shed": "ds2:"},
            "policy 'ds2:' cannot be had",
        ),
        (
            {"shed": ON_ONE},
            f"control: shed='{ON_ONE}' decides on places of starting instances: who sheds decides on keep rates, "
            "perhaps on moves of running instances, and on nothing else, as qod, qod-paper do, or a class of yours",
        ),
        ({"shed": EVERYTHING}, f"control: shed='{EVERYTHING}' decides on keep rates and parallelism and places"),
        ({"placement": "random"}, "there is no policy 'random'; choose from autoscaler, ds2"),
        (
            {"placement": "qod"},
            "control: placement='qod' decides on keep rates and moves of running instances: who places decides on "
            "places of starting instances, and on nothing else, as 'placement' does, or a class of yours",
        ),
        ({"parameters": {"placement.seeed": 1}}, "policy 'placement' has no parameter 'seeed'; it has seed, lost"),
        ({"parameters": {"qod.reading": 1}}, "policy 'qod' has no parameter 'reading'; it has "),
        ({"parameters": {"qod.confirms": 1}}, "policy 'qod': confirms is true or false, not 1"),
        ({"parameters": {"qod.period_s": 1}}, "control: period_s of 'qod' is what the option period_s of the control"),
        ({"shed": KEEP, "parameters": {f"{KEEP}.part": 1}}, f"policy '{KEEP}' has no parameter 'part'; it has share"),
        ({"scale": "ds2", "parameters": {"pace.interval_s": True}}, "policy 'ds2': pace.interval_s is a number, not T"),
        (
            {"scale": EVERYTHING, "shed": "qod"},
            f"control: 'qod' and '{EVERYTHING}' both decide on keep rates, and would undo each other's actions: choose",
        ),
        (
            {"scale": ("ds2", "autoscaler")},
            "control: 'ds2' and 'autoscaler' both decide on parallelism, and would undo each other's actions: choose",
        ),
        ({"scale": ("sage", "qod")}, "control: 'qod' decides on keep rates and moves of running instances, and not"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(control: dict[str, Any], sentence: str) -> None:
    assert refusal(**control).startswith(sentence)


def test_a_class_of_a_users_chooses_keep_rates_and_moves_only_if_it_says_so() -> None:
    stream = SimulatedStream(1e-3, guards=False, control=Control(KEEP, "act", parameters={f"{KEEP}.share": 0.25}))
    for _ in range(3):
        stream.cycle(2_000.0)
    assert stream.keep == 0.25
    # Its minimum bounds it, as it does others.
    bounded = SimulatedStream(1e-3, minimum=0.5, guards=False, control=Control(KEEP, "act"))
    shedding = LoadShedding(one_query(0.75), Control(KEEP, "act", parameters={f"{KEEP}.share": 0.25}))
    assert shedding.policy_name == KEEP and shedding.shedders.source_minimum["due"] == 0.75
    bounded.cycle(2_000.0)
    assert bounded.keep == 0.5


def test_a_class_of_a_users_says_where_instances_start(tmp_path: Path) -> None:
    plan = JobPlan("test", graph(), LoopOptions(), tmp_path)
    control = Control(placement=ON_ONE, parameters={f"{ON_ONE}.machine": 1})
    log = tmp_path / "log.jsonl"
    placed = start_control(plan, 0, ControlOptions(log, control), lambda text: None)
    placed.know({"source": 10.0})
    hear_burner(placed, 0.0)
    places = placed.place(job_places(), SECOND_NS)
    assert len(places) == 4 and set(places.values()) == {MANAGERS[1]}
    assert placed.measured_cpu == {}
    placed.close()
    begun, *_ = lines(log, ON_ONE)
    assert begun["parameters"]["machine"] == 1
    assert all(item.same for item in redecide(log, ON_ONE, {}))


def test_limits_bring_no_class_into_a_job_that_was_not_started_with_it(tmp_path: Path) -> None:
    limits = RunningLimits()
    plan = JobPlan("test", one_query(), LoopOptions(), tmp_path)
    start_control(plan, 0, ControlOptions(None, Control(KEEP, "act")), lambda text: None, Levers(limits)).close()
    limits.change(Limits("off"))
    assert limits.change(Limits(KEEP)).shed == KEEP
    with pytest.raises(
        OptionError, match="is a class that the job was not started with: start it with --shed os:abort"
    ):
        limits.change(Limits("os:abort"))
    with pytest.raises(OptionError, match="'sic', 'both' or a class of yours as 'module:Class', not 'all'"):
        Limits("all")
