"""The guards' property: of 20,000 hostile snapshots no policy raises, and no plan leaves its quotas."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any

import numpy as np
import pytest

from penstock.engine.control.policies import POLICIES, make_policy
from penstock.engine.control.steering import IF_FREE, OWNS, control_loop, role_of
from penstock.model.plan import (
    ApplicationSize,
    BucketMove,
    Decision,
    Move,
    NoChange,
    Placement,
    RescalePlan,
    Route,
    ShedPlan,
    TaskSize,
)
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.guarded import Guarded
from penstock.scheduler.limits import OF_ALL, ONE_PER_CORE, PlanLimits
from penstock.scheduler.loop_state import ended
from penstock.scheduler.ownership import Level, Resource, is_empty
from penstock.scheduler.plausible_readings import clock_fault, plausible_snapshot
from tests.papers_cases import cases
from tests.scheduler.hostile_cases import GB, LENGTH, hostile_series, job
from tests.scheduler.quota_checks import drawn_quotas, within

SNAPSHOTS = 20_000
WHOLE = 4
"""Who sizes whole jobs looks seldom, and long at each look: it gets so many times fewer snapshots."""


def series_of(name: str) -> int:
    """Return how many series a policy sees: all policies together see 20,000 snapshots, or as is chosen."""
    parts = {each: WHOLE if role_of(each).level < Level.APPLICATION else 1 for each in POLICIES}
    share = SNAPSHOTS * parts[name] / (sum(parts.values()) * LENGTH)
    return max(ceil(share), int(os.environ.get("PENSTOCK_CASES", "0")))


SERIES = 250
"""Of plans that are drawn."""
REPEATED = 8
"""Every so many series it is tried whether what is impossible has a part in a decision."""


def test_there_are_as_many_snapshots_as_are_asked_for() -> None:
    assert sum(series_of(name) for name in POLICIES) * LENGTH >= SNAPSHOTS


@pytest.mark.parametrize("name", [*POLICIES])
def test_nothing_raises_and_no_plan_leaves_its_quotas(name: str) -> None:
    rng = np.random.default_rng([24, sum(name.encode())])
    for number, series in enumerate(hostile_series(rng, series_of(name))):
        policy = replace(make_policy(name, {}), limits=drawn_quotas(rng))
        memory = policy.start()
        for snapshot in series:
            try:
                before, (decision, memory) = memory, policy.decide(snapshot, memory)
                within(decision, snapshot, policy.limits)
                if clock_fault(snapshot, before.last_snapshot):
                    assert is_empty(decision), "of such a snapshot nothing can be told"
                elif number % REPEATED == 0:
                    # What is impossible has no part in it.
                    possible = plausible_snapshot(snapshot, before.last_snapshot, policy.limits.lost_after_s)
                    assert repr(policy.decide(possible, before)[0]) == repr(decision)
            except Exception as error:
                raise AssertionError(f"{name}, series {number}, snapshot {snapshot.number}, {policy.limits}") from error


NAN, INF = float("nan"), float("inf")
COUNTS = (-1, 0, 1, 1, 2, 2, 3, 4, 6, 9, 40, 10**6)
STATE = (None, None, None, -5, 0, 10**8, 4 * 10**8, 10**9, 10**13, 2**63)
CORES = (None, None, NAN, INF, -1.0, 0.0, 0.5, 2.0, 4.0, 5.0, 6.0, 100.0)
MEMORY = (None, None, NAN, INF, 1e-9, 1e6, 1e8, 1 * GB, 5 * GB, 7.9 * GB, 9 * GB, 1e12)

BINDING = (OF_ALL, ONE_PER_CORE, "the quota of memory", "the quota of all tasks", "the quota of a task")
DEFAULT = PlanLimits()


@dataclass(frozen=True)
class Wild:
    """A policy that wants whatever was drawn."""

    plan: Decision

    def start(self) -> None:
        return None

    def decide(self, snapshot: ClusterSnapshot, memory: None) -> tuple[Decision, None]:
        return self.plan, memory


def wild(rng: np.random.Generator) -> Decision:
    """Return a plan of anything, a part of which may be possible."""

    def some(*least: int) -> Iterator[tuple[int, ...]]:
        return iter([tuple(int(rng.integers(0, high)) for high in least) for _ in range(rng.integers(0, 4))])

    if rng.random() < 0.2:
        moves = tuple(Move(instance, machine) for instance, machine in some(6, 4))
        if rng.random() < 0.5:
            return Placement(moves, "")
        keep = {task: float(rng.choice([NAN, INF, -1.0, 0.5, 2.0])) for (task,) in some(4)}
        return ShedPlan(keep, keep, tuple(keep.values()), "", moves)
    return RescalePlan(
        "",
        tuple(TaskSize(task - (task > 3) * 9, COUNTS[n], None, STATE[size]) for task, n, size in some(5, 12, 10)),
        tuple(BucketMove(task, bucket, to) for task, bucket, to in some(4, 129, 5)),
        tuple(Route(edge, tuple(rng.dirichlet(np.ones(n)) * rng.choice([1, 1, 2]))) for edge, n in some(3, 5) if n),
        tuple(
            ApplicationSize(row, CORES[cores], MEMORY[heap], MEMORY[memory], threads and COUNTS[threads])
            for row, cores, heap, memory, threads in some(3, 12, 12, 12, 12)
        ),
    )


def test_no_plan_that_is_drawn_leaves_its_quotas() -> None:
    rng = np.random.default_rng(24)
    cut, left = Counter[str](), 0
    for number, series in enumerate(hostile_series(rng, SERIES)):
        limits = drawn_quotas(rng)
        for snapshot in series:
            plan = wild(rng)
            policy: Guarded[Any] = Guarded(Wild(plan), limits)
            try:
                decision, memory = policy.decide(snapshot, policy.start())
                within(decision, snapshot, limits)
                if isinstance(plan, RescalePlan) and isinstance(decision, RescalePlan):
                    no_wish_for_more_takes(plan, decision, snapshot)
            except Exception as error:
                raise AssertionError(f"series {number}, snapshot {snapshot.number}, {limits}, {plan}") from error
            cut.update({refusal.reason for refusal in memory.refusals})
            left += not isinstance(decision, NoChange)
    # Quotas bind in a share of the draws, and do not in another.
    assert all(cut[reason] >= SERIES // 10 for reason in BINDING), cut
    assert left > SERIES * LENGTH // 4


def no_wish_for_more_takes(plan: RescalePlan, decision: RescalePlan, snapshot: ClusterSnapshot) -> None:
    """Assert that who asks for more than it has is not given less than that."""
    now = np.bincount(snapshot.instances.task, minlength=len(snapshot.tasks))
    asked = {size.task: size for size in reversed(plan.tasks)}
    for size in decision.tasks:
        assert size.parallelism >= now[size.task] or asked[size.task].parallelism < now[size.task]
    columns = plausible_snapshot(snapshot, None, DEFAULT.lost_after_s).applications
    for given in decision.applications:
        for name in ("cores", "memory_bytes", "threads"):
            got, has = getattr(given, name), getattr(columns, name)
            own = [getattr(each, name) for each in plan.applications if each.application == given.application]
            wish = next((each for each in own if each is not None), None)
            if got is not None and has is not None and wish is not None and wish > has[given.application]:
                # Threads are whole, a mean of them may not be.
                assert got >= (np.floor(has[given.application]) if name == "threads" else has[given.application]), name


SCALERS = tuple(name for name in OWNS if Resource.PARALLELISM in (*OWNS[name], *IF_FREE.get(name, ())))
CALM = 2
"""Every so many snapshots that a loop is shown nothing is hostile."""


@pytest.mark.parametrize("scaler", SCALERS)
def test_no_pair_raises_leaves_its_quotas_or_acts_twice_at_a_time(scaler: str) -> None:
    rng = np.random.default_rng([25, sum(scaler.encode())])
    acted = 0
    for seed, series in enumerate(hostile_series(rng, cases(20))):
        limits = drawn_quotas(rng)
        given = {f"limits.{item.name}": getattr(limits, item.name) for item in fields(limits)}
        loop = control_loop({"qod": given, "placement": given, scaler: given}, acts=True, cool_down_s=0.0)
        state = loop.start(0.0)
        for number, snapshot in enumerate(series, 1):
            now_s = 100.0 * number
            seen = job(number, now_s) if number % CALM == 0 else replace(snapshot, time_s=now_s)
            busy = state.busy
            try:
                decisions, _, state = loop.tick(dict.fromkeys(loop.due(state, now_s), seen), now_s, state)
                for item in decisions:
                    assert not (item.acts and clock_fault(item.snapshot, None))
                    within(item.allowed, item.snapshot, limits)
            except Exception as error:
                raise AssertionError(f"qod and {scaler}, series {seed}, snapshot {number}, {limits}") from error
            begun = [
                item for item in decisions if item.acts and item.policy != "placement" and not is_empty(item.allowed)
            ]
            assert len(begun) <= (0 if busy else 1)
            acted += len(begun)
            if rng.random() < 0.5:
                state = ended(state, state.busy, now_s, is_done=bool(rng.random() < 0.8))
    assert acted or scaler not in ("autoscaler", "ds2", "flink-er", "justin"), "the others learn from a history first"
