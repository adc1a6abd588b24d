"""Guards: whatever is measured, policies do not raise, and no plan goes beyond its quotas."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.engine.control.policies import POLICIES, make_policy
from penstock.engine.control.steering import IF_FREE, OWNS, control_loop
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
from penstock.scheduler.ownership import Level, Resource, Role, is_empty
from penstock.scheduler.plausible_readings import clock_fault, plausible_snapshot
from tests.papers_cases import cases
from tests.scheduler.hostile_cases import GB, TASKS, changed, hostile, job
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


QUOTAS = PlanLimits(most_instances=9, most_parallelism=5, most_cores=4.5, most_memory_bytes=12 * GB, one_per_core=True)


@pytest.mark.parametrize("name", [*POLICIES])
def test_nothing_raises_and_no_plan_leaves_its_quotas(name: str) -> None:
    for seed in range(cases(60)):
        rng = np.random.default_rng([seed, sum(name.encode())])
        policy = replace(make_policy(name, {}), limits=QUOTAS)
        memory = policy.start()
        for number in range(1, 5):
            snapshot = hostile(rng, number * 100)
            try:
                readable = clock_fault(snapshot, memory.last_snapshot) == ""
                possible = plausible_snapshot(snapshot, memory.last_snapshot, QUOTAS.lost_after_s) if readable else None
                before, (decision, memory) = memory, policy.decide(snapshot, memory)
                within(decision, snapshot)
                if possible is None:
                    assert is_empty(decision), "of such a snapshot nothing can be told"
                else:
                    # What is impossible has no part in it.
                    assert repr(policy.decide(possible, before)[0]) == repr(decision)
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}, snapshot {number}") from error


def within(decision: Decision, snapshot: ClusterSnapshot, limits: PlanLimits = QUOTAS) -> None:
    """Assert that a decision on the job of this file is one that a platform could carry out within its quotas."""
    most_cores = 6.0 if limits.most_cores is None else limits.most_cores
    most_bytes = limits.most_memory_bytes
    assert most_bytes is not None
    now = np.bincount(snapshot.instances.task, minlength=len(snapshot.tasks))
    cores = snapshot.applications.cores
    if isinstance(decision, RescalePlan):
        after = now.copy()
        for size in decision.tasks:
            after[size.task] = size.parallelism
            assert 1 <= size.parallelism <= max(limits.most_parallelism, now[size.task])
            assert not limits.one_per_core or size.parallelism <= max(most_cores, now[size.task])
            assert size.parallelism <= 3 * now[size.task]
            assert size.managed_bytes is None or 0 <= size.managed_bytes <= most_bytes
        assert after.sum() <= max(limits.most_instances, now.sum())
        for given in decision.applications:
            if given.cores is not None:
                has = 0.0 if cores is None else cores[0]
                assert 0 < given.cores <= most_cores or given.cores <= has
            for figure in (given.cores, given.memory_bytes, given.heap_bytes):
                assert figure is None or (np.isfinite(figure) and figure > 0)
            assert given.threads is None or given.threads >= 1
        for route in decision.routes:
            assert sum(route.shares) == pytest.approx(1) and min(route.shares) >= 0
    elif isinstance(decision, ShedPlan):
        kept = [*decision.source_keep.values(), *decision.edge_keep.values(), *decision.desired_accuracy]
        assert all(0 <= value <= 1 for value in kept)
    if isinstance(decision, Placement | ShedPlan):
        for move in decision.moves:
            of_machine = snapshot.machines.cores[move.machine]
            assert of_machine > 0 and np.isfinite(of_machine)


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


SCALERS = tuple(name for name in OWNS if Resource.PARALLELISM in (*OWNS[name], *IF_FREE.get(name, ())))


@pytest.mark.parametrize("scaler", SCALERS)
def test_under_hostile_snapshots_no_pair_raises_leaves_its_quotas_or_acts_twice_at_a_time(scaler: str) -> None:
    named = ("most_instances", "most_parallelism", "most_cores", "most_memory_bytes", "one_per_core")
    given = {f"limits.{name}": getattr(QUOTAS, name) for name in named}
    loop = control_loop({"qod": given, "placement": given, scaler: given}, acts=True, cool_down_s=0.0)
    acted = 0
    for seed in range(cases(20)):
        rng = np.random.default_rng([seed, sum(scaler.encode())])
        state = loop.start(0.0)
        for number in range(1, 9):
            now_s = 100.0 * number
            calm = number % 2 == 0
            snapshots = {
                name: job(number, now_s) if calm else hostile(rng, number * 100) for name in loop.due(state, now_s)
            }
            busy = state.busy
            try:
                decisions, _, state = loop.tick(snapshots, now_s, state)
                for item in decisions:
                    assert not (item.acts and clock_fault(item.snapshot, None))
                    within(item.allowed, item.snapshot)
            except Exception as error:
                raise AssertionError(f"qod and {scaler}, seed {seed}, snapshot {number}") from error
            begun = [
                item for item in decisions if item.acts and item.policy != "placement" and not is_empty(item.allowed)
            ]
            assert len(begun) <= (0 if busy else 1)
            acted += len(begun)
            if rng.random() < 0.5:
                state = ended(state, state.busy, now_s, is_done=bool(rng.random() < 0.8))
    assert acted or scaler not in ("autoscaler", "ds2", "flink-er", "justin"), "the others learn from a history first"


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
