"""The control loop: owners, order, one action at a time, cool-down, effects, and what shedding triggers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from penstock.model.plan import (
    ApplicationSize,
    Decision,
    Move,
    NoChange,
    Placement,
    RescalePlan,
    ShedPlan,
    TaskSize,
    not_measured,
)
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.control_loop import ControlLoop, Steering
from penstock.scheduler.guarded import Guarded
from penstock.scheduler.loop_state import Effect, LoopDecision, LoopState, ended
from penstock.scheduler.ownership import Level, Resource, Role, TwoOwnersError, owned_part
from tests.scheduler.hostile_cases import changed, job

APPLICATION = frozenset({"job"})
GROW, GROW_MORE = RescalePlan("more", (TaskSize(1, 3),)), RescalePlan("more", (TaskSize(1, 4),))
SHED = ShedPlan({0: 0.5}, {}, (0.5,), "shed")
SCALES = Role(Level.SIZE, frozenset({Resource.PARALLELISM}))
SHEDS = Role(Level.KEEP, frozenset({Resource.KEEP_RATES, Resource.MOVES}))


@dataclass(frozen=True)
class Scripted:
    """Decides what it was given, one after the other, and the last from then on; it keeps what it saw."""

    plans: Sequence[Decision]

    def start(self) -> tuple[ClusterSnapshot, ...]:
        return ()

    def decide(self, snapshot: ClusterSnapshot, memory: Any) -> tuple[Decision, Any]:
        return self.plans[min(len(memory), len(self.plans) - 1)], (*memory, snapshot)


def steering(name: str, role: Role, *plans: Decision, every_s: float = 10.0) -> Steering:
    return Steering(name, Guarded(Scripted(plans)), role, every_s)


def loop_of(*policies: Steering, **options: Any) -> ControlLoop:
    return ControlLoop(policies, **{"acts": True, "cool_down_s": 30.0, **options})


@dataclass
class Played:
    """A loop that is shown the job of `hostile_cases` as time goes by."""

    loop: ControlLoop
    state: LoopState
    now_s: float = 1000.0

    def until(self, name: str) -> LoopDecision:
        """Go on to the next decision of a policy."""
        for _ in range(100):
            for decision in self.tick()[0]:
                if decision.policy == name:
                    return decision
        raise AssertionError(f"{name} is not asked any more")

    def tick(self, **columns: Any) -> tuple[tuple[LoopDecision, ...], tuple[Effect, ...]]:
        self.now_s += 5.0
        seen = changed(job(int(self.now_s), self.now_s, 5.0), columns.get("columns", {}))
        due = self.loop.due(self.state, self.now_s)
        decisions, effects, self.state = self.loop.tick(dict.fromkeys(due, seen), self.now_s, self.state)
        return decisions, effects

    def end(self, *, is_done: bool = True) -> None:
        self.state = ended(self.state, APPLICATION, self.now_s, is_done=is_done)


def played(*policies: Steering, **options: Any) -> Played:
    loop = loop_of(*policies, **options)
    return Played(loop, loop.start(1000.0))


def memory_of(run: Played, name: str) -> tuple[ClusterSnapshot, ...]:
    seen: tuple[ClusterSnapshot, ...] = run.state.memories[name].policy
    return seen


def test_two_owners_are_refused_with_a_sentence() -> None:
    with pytest.raises(TwoOwnersError, match="'one' and 'two' both decide on parallelism, and would undo each other's"):
        loop_of(steering("one", SCALES, GROW), steering("two", SCALES, GROW))
    sage = Role(Level.APPLICATION, frozenset({Resource.ALLOCATIONS}), frozenset({Resource.PARALLELISM}))
    loop_of(steering("one", SCALES, GROW), steering("two", sage, GROW))


def test_one_action_at_a_time_then_a_cool_down_and_only_windows_after_it() -> None:
    run = played(steering("scaler", SCALES, GROW, GROW_MORE))
    first = run.until("scaler")
    assert first.acts and first.allowed == GROW and run.state.busy == APPLICATION
    for _ in range(10):
        assert run.tick() == ((), ())
    run.end(is_done=False)
    at_s = run.now_s
    assert run.until("scaler").allowed == GROW_MORE
    assert run.now_s - 5.0 >= at_s + 30.0 and len(memory_of(run, "scaler")) == 2


def test_an_application_that_has_just_started_settles_first() -> None:
    run = played(steering("scaler", SCALES, GROW))
    for _ in range(4):
        assert run.tick(columns={"instances.age_s": [run.now_s + 5.0 - 1000.0] * 5})[0] == ()
    assert run.until("scaler").acts and run.now_s >= 1035.0


def test_an_application_settles_from_the_first_rows_that_come_to_it() -> None:
    run = played(steering("scaler", SCALES, GROW))
    dry = {"partitions.appended": [0.0] * 2, "partitions.consumed": [0.0] * 2}
    first = [decision for _ in range(12) for decision in run.tick(columns=dry)[0]]
    # It has run for long, so that there is nothing to wait for while nothing comes.
    assert [decision.acts for decision in first] == [True]
    run.end()
    run = played(steering("scaler", SCALES, NoChange("idle"), *[GROW] * 20))
    for _ in range(2):
        run.tick(columns=dry)
    came_s = run.now_s
    assert run.until("scaler").acts
    assert run.now_s - 5.0 >= came_s + 30.0


def test_a_lost_machine_ends_the_cool_down() -> None:
    run = played(steering("scaler", SCALES, GROW, GROW_MORE))
    run.until("scaler")
    run.end()
    lost = {"machines.heartbeat_age_s": [1.0, 30.0, 1.0]}
    decided = [decision for _ in range(2) for decision in run.tick(columns=lost)[0]]
    assert [decision.allowed for decision in decided] == [GROW_MORE]
    run.end()
    # It is lost already, so that it is no news.
    assert run.tick(columns=lost)[0] == run.tick(columns=lost)[0] == ()


def test_who_is_told_of_losses_takes_no_silent_machine_for_lost() -> None:
    run = played(steering("scaler", SCALES, GROW, GROW_MORE), is_told_losses=True)
    run.until("scaler")
    run.end()
    silent = {"machines.heartbeat_age_s": [1.0, 30.0, 1.0]}
    assert run.tick(columns=silent)[0] == run.tick(columns=silent)[0] == ()
    run.state = run.loop.after_loss(run.state, {"other"}, run.now_s)
    assert run.tick()[0] == ()
    run.state = run.loop.after_loss(run.state, APPLICATION, run.now_s)
    (decided,) = run.tick()[0]
    assert decided.allowed == GROW_MORE and decided.acts
    # One that is lost while an action is in flight ends nothing of that.
    run.state = run.loop.after_loss(run.state, APPLICATION, run.now_s)
    assert run.tick()[0] == () and run.state.busy == APPLICATION


def test_ages_start_anew_where_an_action_touched_and_elsewhere_not() -> None:
    run = played(steering("scaler", SCALES, GROW, NoChange("enough")), steering("qod", SHEDS, SHED, every_s=5.0))
    run.until("scaler")
    run.end()
    run.tick()
    settled = memory_of(run, "qod")[-1].instances.settled_s
    assert settled is not None and settled.tolist() == [900.0, 5.0, 5.0, 900.0, 900.0]


def test_scaling_goes_before_moves() -> None:
    moves = replace(SHED, moves=(Move(1, 2),))
    run = played(steering("scaler", SCALES, NoChange("enough")), steering("qod", SHEDS, moves, every_s=5.0))
    first = run.tick()[0]
    assert [item.policy for item in first] == ["qod"]
    assert first[0].allowed == SHED and first[0].withheld[0].reason == "whoever sizes tasks decides first"
    assert run.state.busy == frozenset()
    second = run.tick()[0]
    assert [item.policy for item in second] == ["scaler", "qod"]
    assert second[1].allowed == moves and run.state.busy == APPLICATION
    seen = memory_of(run, "qod")[1].refusals
    assert (seen.subject, seen.what) == (("job/split/0",), ("machine",))


def test_moves_wait_while_a_scaler_acts_and_keep_rates_do_not() -> None:
    moves = replace(SHED, moves=(Move(1, 2),))
    run = played(steering("scaler", SCALES, GROW), steering("qod", SHEDS, SHED, SHED, SHED, moves, every_s=5.0))
    run.until("scaler")
    shed = [run.until("qod") for _ in range(3)]
    assert all(item.acts for item in shed) and shed[-1].allowed == SHED
    assert shed[-1].withheld[0].reason == "an action is in flight"


def test_shedding_that_lasts_makes_sizes_due_and_a_pause_begins_anew() -> None:
    run = played(
        steering("scaler", SCALES, NoChange("enough"), every_s=1000.0),
        steering("qod", SHEDS, SHED, SHED, SHED, replace(SHED, desired_accuracy=(1.0,)), SHED, every_s=5.0),
    )
    run.until("scaler")
    # Three cycles of shedding, one without, then four: the fourth makes the scaler due, which goes with the next tick.
    assert run.now_s == 1000.0 + 5.0 * 9
    run = played(
        steering("scaler", SCALES, NoChange("enough"), every_s=100.0),
        steering("qod", SHEDS, SHED, not_measured("x"), every_s=5.0),
    )
    run.until("scaler")
    assert run.now_s == 1100.0


def test_an_effect_is_expected_and_observed_and_what_was_in_vain_is_not_repeated() -> None:
    run = played(steering("scaler", SCALES, GROW))
    first = run.until("scaler")
    figures = {item.figure: (item.before, item.expected) for item in first.expectations}
    assert figures["instances"] == (2.0, 3.0) and figures["capacity"][1] == pytest.approx(1.5 * figures["capacity"][0])
    run.end()
    effects: list[Effect] = []
    decided: list[LoopDecision] = []
    while not decided:
        decisions, seen = run.tick()
        effects += seen
        decided += decisions
    (effect,) = effects
    # The job is as it was: the action that is said to be done has changed nothing.
    assert [item.figure for item in effect.missing] == ["instances", "capacity"]
    assert isinstance(decided[0].allowed, NoChange) and not decided[0].acts
    assert decided[0].withheld[0].reason == "it was without effect before, and nothing has changed"
    # Half as much again is offered: that is other evidence.
    more = {"partitions.appended": [11_250.0] * 2}
    again = [item for _ in range(2) for item in run.tick(columns=more)[0]]
    assert again[0].allowed == GROW and again[0].acts


def test_an_action_that_failed_is_not_said_to_be_without_effect() -> None:
    run = played(steering("scaler", SCALES, GROW))
    run.until("scaler")
    run.end(is_done=False)
    assert run.until("scaler").acts


def test_recommendations_are_no_actions() -> None:
    run = played(steering("scaler", SCALES, GROW), acts=False)
    for _ in range(3):
        decision = run.until("scaler")
        assert not decision.acts and decision.allowed == GROW and decision.expectations
    assert run.state.busy == frozenset()


def test_without_an_actuator_nothing_acts_and_it_is_said() -> None:
    run = played(steering("scaler", SCALES, GROW), actuators=frozenset({Resource.KEEP_RATES}))
    decision = run.until("scaler")
    assert not decision.acts and decision.withheld[0].reason == "there is no actuator for it"
    assert run.state.busy == frozenset()


def test_instances_start_while_an_action_is_in_flight() -> None:
    starts = Role(Level.START, frozenset({Resource.STARTS}))
    run = played(steering("scaler", SCALES, GROW), steering("placement", starts, Placement((Move(3, 2),), "start")))
    decisions = {item.policy: item for item in [*run.tick()[0], *run.tick()[0]]}
    assert decisions["scaler"].acts and decisions["placement"].acts
    assert [action.policy for action in run.state.in_flight] == ["scaler"]


def test_what_is_another_policys_is_taken_out_of_a_plan() -> None:
    plan = RescalePlan(
        "all",
        (TaskSize(1, 3, 1, 10), TaskSize(2, 2, 1, 10)),
        applications=(ApplicationSize(0, cores=2.0, threads=4), ApplicationSize(0, threads=4)),
    )
    parallel, foreign = owned_part(plan, frozenset({Resource.PARALLELISM}), job())
    assert isinstance(parallel, RescalePlan) and parallel.tasks == (TaskSize(1, 3),)
    assert parallel.applications == (ApplicationSize(0, threads=4),) * 2
    assert foreign == (Resource.ALLOCATIONS, Resource.TASK_MEMORY)
    memory, _ = owned_part(plan, frozenset({Resource.TASK_MEMORY, Resource.ALLOCATIONS}), job())
    assert isinstance(memory, RescalePlan) and memory.tasks == (TaskSize(1, 2, 1, 10), TaskSize(2, 2, 1, 10))
    assert memory.applications == (ApplicationSize(0, cores=2.0),)
    assert owned_part(plan, frozenset(Resource), job()) == (plan, ())
    nothing, _ = owned_part(plan, frozenset({Resource.MOVES}), job())
    assert nothing == NoChange("all")


def test_a_snapshot_without_ages_has_those_that_actions_give() -> None:
    run = played(steering("scaler", SCALES, GROW, NoChange("enough")), steering("qod", SHEDS, SHED, every_s=5.0))
    run.until("scaler")
    run.end()
    run.tick(columns={"instances.settled_s": None})
    settled = memory_of(run, "qod")[-1].instances.settled_s
    assert settled is not None and np.isnan(settled).tolist() == [True, False, False, True, True]
