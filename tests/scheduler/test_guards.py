"""Guards: whatever is measured, policies do not raise, and no plan goes beyond its quotas."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.engine.control.policies import make_policy
from penstock.engine.control.steering import control_loop
from penstock.model.plan import (
    ApplicationSize,
    BucketMove,
    Decision,
    Demand,
    Move,
    NoChange,
    Placement,
    RescalePlan,
    Route,
    ShedPlan,
    TaskSize,
)
from penstock.model.snapshot import ApplicationColumns, ClusterSnapshot, RefusalColumns
from penstock.scheduler.control_loop import ControlLoop, Steering
from penstock.scheduler.guarded import Guarded, guarded
from penstock.scheduler.limits import OF_ALL, ONE_PER_CORE, PlanLimits
from penstock.scheduler.loop_state import ended
from penstock.scheduler.ownership import Level, Resource, Role
from penstock.scheduler.plausible_readings import plausible_snapshot
from tests.scheduler.hostile_cases import GB, NAN, TASKS, changed, job
from tests.scheduler.quota_checks import within
from tests.scheduler.sage_applications import snapshot as applications

CASES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "hostile_snapshots.toml").read_text(encoding="utf-8")
)
DEFAULT = PlanLimits()
SHARED = PlanLimits(most_cores=6.0, most_memory_bytes=1e9, one_per_core=True)
BARE = ("kind", "sizes", "most", "least", "raises", "machines", "keeps_below", "any")
WITH_GUARDS = ("policy", "parameters", "first", "first_s", "set", "window_s", "time_s", "bare", "kind", "sizes")
SAID = (*WITH_GUARDS, "reason", "machines", "keep")


def decided(policy: Any, case: Mapping[str, Any]) -> Decision:
    """Return a policy's decision on the last snapshot of a case."""
    memory = policy.start()
    if "first" in case:
        before = job(9, case.get("first_s", 60.0))
        _, memory = policy.decide(changed(before, case["first"]), memory)
    snapshot = job(10, case.get("time_s", 100.0), case.get("window_s", 10.0))
    decision: Decision = policy.decide(changed(snapshot, case.get("set", {})), memory)[0]
    return decision


def sizes_of(decision: Decision) -> dict[str, int]:
    return {TASKS[size.task]: size.parallelism for size in getattr(decision, "tasks", ())}


@pytest.mark.parametrize("name", [*CASES])
def test_hostile_snapshots(name: str) -> None:
    case = CASES[name]
    assert case.keys() <= set(SAID) and case["bare"].keys() <= set(BARE)
    decision = decided(make_policy(case["policy"], case.get("parameters", {})), case)
    assert type(decision).__name__ == case["kind"], decision
    assert case.get("reason", "") in decision.reason
    if "sizes" in case:
        assert sizes_of(decision) == case["sizes"]
    if "machines" in case:
        assert isinstance(decision, Placement) and [move.machine for move in decision.moves] == case["machines"]
    if "keep" in case:
        assert isinstance(decision, ShedPlan)
        assert min([*decision.source_keep.values(), *decision.edge_keep.values()], default=1.0) == case["keep"]


@pytest.mark.parametrize("name", [*CASES])
def test_they_are_hostile(name: str) -> None:
    case, bare = CASES[name], CASES[name]["bare"]
    policy = make_policy(case["policy"], case.get("parameters", {})).policy
    with np.errstate(all="ignore"):
        if bare.get("raises"):
            with pytest.raises((ValueError, OverflowError, ZeroDivisionError, FloatingPointError)):
                decided(policy, case)
            return
        decision = decided(policy, case)
    sizes = sizes_of(decision)
    assert type(decision).__name__ == bare.get("kind", type(decision).__name__)
    assert "sizes" not in bare or sizes == bare["sizes"]
    assert "most" not in bare or max(sizes.values()) >= bare["most"]
    assert "least" not in bare or min(sizes.values()) <= bare["least"]
    if "machines" in bare:
        assert isinstance(decision, Placement) and [move.machine for move in decision.moves] == bare["machines"]
    if "keeps_below" in bare:
        assert isinstance(decision, ShedPlan)
        assert not min([*decision.source_keep.values(), *decision.edge_keep.values()]) > bare["keeps_below"]


@dataclass(frozen=True)
class Plans:
    """A policy of a user's that decides what it was given, and keeps what it saw."""

    plan: Decision

    def start(self) -> tuple[ClusterSnapshot, ...]:
        return ()

    def decide(
        self, snapshot: ClusterSnapshot, memory: tuple[ClusterSnapshot, ...]
    ) -> tuple[Decision, tuple[ClusterSnapshot, ...]]:
        return self.plan, (*memory, snapshot)


def planned(plan: Decision, snapshot: ClusterSnapshot | None = None, limits: PlanLimits = DEFAULT) -> Decision:
    policy = Guarded(Plans(plan), limits)
    return policy.decide(job() if snapshot is None else snapshot, policy.start())[0]


def test_what_is_allowed_is_left_as_it_is() -> None:
    plan = RescalePlan("as it should be", (TaskSize(1, 4), TaskSize(2, 1, 0, 10**7)), routes=(Route(0, (0.25,) * 4),))
    assert planned(plan) is plan
    snapshot = job()
    assert plausible_snapshot(snapshot, snapshot, 10.0) is snapshot


def test_a_plan_beyond_its_limits_is_made_for_the_largest_share_of_its_target() -> None:
    plan = RescalePlan("", (TaskSize(1, 12), TaskSize(2, 4)))
    cut = planned(plan)
    # 12 is cut to 3 x 2: half of the target, of which 'count' needs 2, as it has.
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(1, 6),)
    assert "job/split parallelism: a step is at most x3" in cut.reason
    both = planned(RescalePlan("", (TaskSize(1, 6), TaskSize(2, 6))), limits=PlanLimits(most_instances=9))
    assert isinstance(both, RescalePlan) and [size.parallelism for size in both.tasks] == [4, 4]


def test_a_task_has_no_more_instances_than_there_are_cores() -> None:
    plan = RescalePlan("", (TaskSize(1, 6), TaskSize(2, 4)))
    cut = planned(plan, limits=PlanLimits(most_cores=3.9, one_per_core=True))
    # Half of the target, of which 'count' needs 2, as it has.
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(1, 3),)
    assert "job/split parallelism: the quota of cores, each of which works one instance of a task" in cut.reason
    for few in (2.0, 0.5):
        # It takes none away that are there.
        none = planned(plan, limits=PlanLimits(most_cores=few, one_per_core=True))
        assert isinstance(none, NoChange) and none.reason.startswith("refused: job/split parallelism: the quota of co")
    fewer = RescalePlan("", (TaskSize(1, 1),))
    assert planned(fewer, limits=PlanLimits(most_cores=0.5, one_per_core=True)) is fewer
    assert planned(plan, limits=PlanLimits(most_cores=2.0)) is plan
    # Without a quota the cores of the machines that are there count.
    small = changed(job(), {"machines.cores": [1.0, 1.0, 1.0], "machines.cpu_percent": [50.0] * 3})
    cut = planned(plan, small, PlanLimits(one_per_core=True))
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(1, 3),)


@pytest.mark.parametrize(("others_bytes", "fits"), [(0.0, True), (4e8, True), (6e8, False)])
def test_what_others_on_the_quota_have_is_none_of_a_jobs(others_bytes: float, fits: bool) -> None:
    """An application without tasks is another job, whose head has them; an instance of 'count' has 166 MB."""
    both = ApplicationColumns(("job", "other"), cores=[4.0, 2.5], memory_bytes=[3.3e8, others_bytes])
    guard = guarded(Plans(RescalePlan("", (TaskSize(1, 6), TaskSize(2, 6)))), SHARED)
    decision, memory = guard.decide(replace(job(), applications=both), guard.start())
    # Of six cores three and a half are left.
    assert sizes_of(decision) == ({"split": 3, "count": 3} if fits else {})
    assert ONE_PER_CORE in [item.reason for item in memory.refusals] or not fits
    of_all = [(item.subject, item.what, item.asked) for item in memory.refusals if item.reason == OF_ALL]
    assert of_all == ([] if fits else [("job", "memory", 3 * 165_675_008.0)])


@pytest.mark.parametrize("is_given", [True, False])
def test_others_have_no_cores_of_machines_that_are_a_jobs_own(is_given: bool) -> None:
    """Where no quota is given, machines seen here have cores for who is on them; their memory may be that of a host."""
    both = ApplicationColumns(("job", "other"), cores=[4.0, 8.0], memory_bytes=[3.3e8, 4e8])
    own = replace(job(), applications=both)
    limits = PlanLimits(most_cores=float(own.machines.cores.sum()) if is_given else None, one_per_core=True)
    for plan in (RescalePlan("", applications=(ApplicationSize(0, 5.0),)), RescalePlan("", (TaskSize(1, 6),))):
        allowed = planned(plan, own, limits)
        assert (allowed is plan) is not is_given
    memory = float(np.sum(own.machines.memory_limit_bytes)) - 4e8
    whole = planned(RescalePlan("", applications=(ApplicationSize(0, None, None, memory + 1e6),)), own, limits)
    assert isinstance(whole, RescalePlan) and whole.applications[0].memory_bytes == pytest.approx(memory)


def test_what_machines_have_bounds_memory_and_not_how_many_instances_there_are() -> None:
    """Machines that come have memory of their own; a quota that a user has set bounds both."""
    poor = changed(job(), {"machines.memory_limit_bytes": [1e6, 1e6, 1e6], "instances.managed_bytes": [4e8] * 5})
    more = RescalePlan("", (TaskSize(1, 3),))
    assert planned(more, poor) is more
    assert isinstance(planned(more, poor, PlanLimits(most_memory_bytes=3e6)), NoChange)
    richer = planned(RescalePlan("", (TaskSize(1, 3, None, 8 * 10**8),)), poor)
    assert isinstance(richer, RescalePlan) and richer.tasks == (TaskSize(1, 3),)


def test_a_plan_of_things_that_there_are_not_is_refused() -> None:
    wild = RescalePlan(
        "wild",
        (TaskSize(7, 2), TaskSize(-1, 2), TaskSize(1, 0), TaskSize(2, 2, -3, -5)),
        (BucketMove(2, 999, 0), BucketMove(9, 0, 0), BucketMove(2, 0, 99)),
        (Route(0, (1.0, float("nan"))), Route(5, (1.0,)), Route(0, (0.5,))),
        (ApplicationSize(3, cores=1.0), ApplicationSize(0, cores=float("nan"), heap_bytes=-1.0, memory_bytes=np.inf)),
    )
    cut = planned(wild)
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(1, 1),)
    assert not (cut.buckets or cut.routes or cut.applications)
    assert planned(RescalePlan("", (TaskSize(7, 2),))).reason.startswith("refused: task 7 parallelism: there is no")


def test_heap_lies_in_memory_also_where_that_is_not_known() -> None:
    plan = RescalePlan("", applications=(ApplicationSize(0, heap_bytes=9e12),))
    unknown = changed(job(), {"applications.memory_bytes": None})
    cut = planned(plan, unknown, PlanLimits(most_memory_bytes=6 * GB))
    assert isinstance(cut, RescalePlan) and cut.applications == (ApplicationSize(0, heap_bytes=6 * GB),)
    known = planned(plan, limits=PlanLimits(most_memory_bytes=60 * GB))
    assert isinstance(known, RescalePlan) and known.applications == (ApplicationSize(0, heap_bytes=8 * GB),)


def test_an_application_of_which_nothing_is_known_is_not_given_nothing() -> None:
    """Where others have all of the quota, what is left for it is no allocation."""
    both = ApplicationColumns(("job", "other"), cores=[NAN, 6.0], memory_bytes=[NAN, 1e9])
    asked = RescalePlan("", applications=(ApplicationSize(0, 2.0, 1e8, 1e8),))
    refused = planned(asked, replace(job(), applications=both), replace(SHARED, least_memory_bytes=0.0))
    assert isinstance(refused, NoChange) and OF_ALL in refused.reason


def test_a_plan_for_another_job_is_refused() -> None:
    """Its head sizes it; what it has on machines that are a job's own counts for nothing here."""
    both = ApplicationColumns(("job", "other"), cores=[4.0, 2.5], memory_bytes=[3.3e8, 1e9])
    refused = planned(RescalePlan("", applications=(ApplicationSize(1, 5.0),)), replace(job(), applications=both))
    assert isinstance(refused, NoChange) and "other cores: it is another job's" in refused.reason


def test_who_has_more_threads_than_the_quota_keeps_them() -> None:
    more = planned(RescalePlan("", applications=(ApplicationSize(0, threads=8),)), limits=PlanLimits(most_instances=3))
    assert isinstance(more, NoChange) and "all tasks have at most 3 instances" in more.reason
    fewer = RescalePlan("", applications=(ApplicationSize(0, threads=4),))
    assert planned(fewer, limits=PlanLimits(most_instances=4)) is fewer


def test_sizes_of_one_application_are_one_and_what_is_sized_twice_is_as_at_first() -> None:
    heap, memory, more = ApplicationSize(0, heap_bytes=5 * GB), ApplicationSize(0, memory_bytes=1e9), 2e9
    cut = planned(RescalePlan("", applications=(heap, memory)))
    assert isinstance(cut, RescalePlan) and cut.applications == (ApplicationSize(0, heap_bytes=1e9, memory_bytes=1e9),)
    assert "heap: it lies within the memory" in cut.reason
    twice = planned(RescalePlan("", applications=(memory, ApplicationSize(0, memory_bytes=more, threads=4))))
    assert isinstance(twice, RescalePlan) and "it is sized twice" in twice.reason
    assert twice.applications == (replace(memory, threads=4),)


def test_what_is_shed_is_a_part_and_moves_go_where_there_is_room() -> None:
    nan = float("nan")
    snapshot = changed(job(), {"machines.cores": [4.0, 0.0, 4.0], "machines.heartbeat_age_s": [1.0, 1.0, 99.0]})
    moves = tuple(Move(instance, machine) for instance, machine in ((4, 0), (4, 1), (4, 2), (4, 9), (99, 0)))
    plan = ShedPlan({0: nan, 9: 0.5}, {0: -1.0, 1: 7.0}, (nan,), "", moves, (Demand(0, nan, ""), Demand(1, 2.0, "")))
    cut = planned(plan, snapshot)
    assert isinstance(cut, ShedPlan)
    assert cut.source_keep == {0: 1.0} and cut.edge_keep == {0: 0.0, 1: 1.0} and cut.desired_accuracy == (1.0,)
    assert cut.moves == (Move(4, 0),) and cut.demands == (Demand(1, 2.0, ""),)
    assert isinstance(planned(Placement((Move(4, 1),), ""), snapshot), NoChange)


def test_a_refusal_is_told_with_the_next_snapshot_and_only_then() -> None:
    policy = guarded(Plans(RescalePlan("", (TaskSize(1, 60),))), PlanLimits())
    memory = policy.start()
    for number in (1, 2):
        _, memory = policy.decide(job(number, 100.0 * number), memory)
    first, second = memory.policy
    assert len(first.refusals) == 0
    refusals = second.refusals
    assert (refusals.subject, refusals.what) == (("job/split",), ("parallelism",))
    assert refusals.asked is not None and refusals.granted is not None
    assert (refusals.asked[0], refusals.granted[0]) == (60, 6)
    assert guarded(policy, PlanLimits(step_factor=9.0)) is policy


def test_placement_does_not_wait_for_a_start_that_was_refused() -> None:
    policy = make_policy("placement", {})
    waits = {"instances.is_running": [True] * 4 + [False], "instances.age_s": [900.0] * 4 + [float("nan")]}
    first = changed(job(1, 100.0), waits)
    _, memory = policy.decide(first, policy.start())
    assert isinstance(policy.decide(changed(job(2, 105.0), waits), memory)[0], NoChange)
    refused = RefusalColumns(("job/count/1",), ("machine",), ("full",), [1.0], [0.0])
    again = replace(changed(job(2, 105.0), waits), refusals=refused)
    assert isinstance(policy.decide(again, memory)[0], Placement)


@pytest.mark.parametrize("is_guarded", [True, False])
def test_memory_that_sage_raises_without_end_ends_at_the_quota(is_guarded: bool) -> None:
    policy: Any = make_policy("sage", {"limits.most_memory_bytes": 20 * GB})
    policy = policy if is_guarded else policy.policy
    memory, has = policy.start(), 8 * GB
    for number in range(1, 200):
        one = applications(number, {"a": {"memory": has, "resident": has, "heap": 0.5 * has, "kills": 1.0}})
        decision, memory = policy.decide(one, memory)
        for size in getattr(decision, "applications", ()):
            has = size.memory_bytes or has
    assert has == 20 * GB if is_guarded else has > 1e12


def test_a_time_that_fades_to_nothing_is_no_time() -> None:
    snapshot = job(9, 60.0)
    fading = np.full(len(snapshot.instances), 1e-18)
    fading[0] = 1e-3
    seen = plausible_snapshot(replace(snapshot, instances=replace(snapshot.instances, core_wait_ns=fading)), None, 10.0)
    assert seen.instances.core_wait_ns is not None
    assert seen.instances.core_wait_ns.tolist() == [1e-3, *[0.0] * (len(fading) - 1)]


def test_what_is_impossible_is_no_figure_that_a_decision_is_judged_by() -> None:
    """Infinite times that cancel out are none: a loop that adds them up neither raises nor expects anything of them."""
    inf = float("inf")
    times = {"instances.busy_ns": [1e9, inf, 9e9, 9e9, 9e9], "instances.core_wait_ns": [0.0, -inf, 0.0, 0.0, 0.0]}
    policy = Guarded(Plans(RescalePlan("", (TaskSize(1, 3), TaskSize(2, 3)))), DEFAULT)
    item = Steering("plans", policy, Role(Level.SIZE, frozenset({Resource.PARALLELISM})), 1.0)
    loop = ControlLoop((item,), acts=True, cool_down_s=0.0)
    (decision,), _, state = loop.tick({"plans": changed(job(), times)}, 100.0, loop.start(0.0))
    assert decision.acts and state.busy == {"job"}
    expected = {(it.subject, it.figure): it.expected for it in decision.expectations}
    # Of 'split' the other instance is known: it takes 1,111 rows in a busy second.
    assert expected["job/split", "capacity"] == pytest.approx(3 * 10_000 / 9)
    assert expected["job/split", "instances"] == expected["job/count", "instances"] == 3


@pytest.mark.parametrize("name", [*CASES])
def test_known_hostile_snapshots_lead_a_loop_to_no_more_than_their_policy(name: str) -> None:
    case = CASES[name]
    loop = control_loop({case["policy"]: case.get("parameters", {})}, acts=True, cool_down_s=0.0)
    (item,) = loop.policies
    state = loop.start(0.0)
    if "first" in case:
        _, _, state = loop.tick({item.name: changed(job(9, case.get("first_s", 60.0)), case["first"])}, 60.0, state)
        state = ended(state, state.busy, 60.0, is_done=False)
    snapshot = changed(job(10, case.get("time_s", 100.0), case.get("window_s", 10.0)), case.get("set", {}))
    decisions, _, _ = loop.tick({item.name: snapshot}, 100.0, state)
    for decision in decisions:
        within(decision.allowed, decision.snapshot, replace(DEFAULT, most_memory_bytes=48 * GB))
