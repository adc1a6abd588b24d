"""What decisions are timed on: snapshots of the sizes that are promised, on which every policy has work."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.benchmarks.papers.decision_speed import POLICIES, measure
from penstock.benchmarks.papers.flow_snapshots import GROW, MOVE, ROUTE, flow_snapshot
from penstock.benchmarks.papers.large_snapshots import SIZES, SnapshotSize, large_snapshot
from penstock.benchmarks.papers.sizing_snapshots import sizing_snapshots
from penstock.model.plan import NoChange, RescalePlan, ShedPlan
from penstock.scheduler.flink_er import FlinkEr
from penstock.scheduler.sage import Sage
from penstock.scheduler.sizing import RULES
from penstock.shedding.qod import PAPER, PENSTOCK, QualityOfData
from penstock.shedding.qod_figures import Figures, read_figures
from penstock.shedding.qod_sources import NO_LAGS


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_there_is_as_much_as_the_size_says(size: SnapshotSize) -> None:
    snapshot = large_snapshot(size)
    groups = (snapshot.instances, snapshot.tasks, snapshot.applications, snapshot.machines)
    assert [len(group) for group in groups] == [size.instances, size.tasks, size.applications, size.machines]
    assert snapshot.tasks.is_source.sum() == size.sources
    assert len(set(snapshot.queries.priority.tolist())) == 3
    assert 0 < snapshot.edges.is_free.sum() < len(snapshot.edges)


@pytest.mark.parametrize("policy", [PAPER, PENSTOCK], ids=["paper", "penstock"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_a_third_of_the_machines_need_kills_and_accuracy_is_shared_out(
    size: SnapshotSize, policy: QualityOfData
) -> None:
    snapshot = large_snapshot(size)
    figures = read_figures(snapshot, replace(policy.reading, drain_s=None), NO_LAGS)
    assert isinstance(figures, Figures)
    required = np.bincount(figures.machine, figures.min_req_cpu, size.machines)
    short = set(np.flatnonzero(required > figures.a_cpu).tolist())
    assert len(short) == pytest.approx(size.machines / 3, abs=0.02 * size.machines + 1)
    name = next(name for name, (timed, _) in POLICIES.items() if timed is policy)
    memory = policy.start()
    for seen in POLICIES[name][1](size):
        decision, memory = policy.decide(seen, memory)
    assert isinstance(decision, ShedPlan) and not decision.failed
    assert {int(snapshot.instances.machine[move.instance]) for move in decision.moves} == short
    desired = np.array(decision.desired_accuracy)
    assert ((desired > snapshot.queries.minimum_accuracy + 1e-6) & (desired < 1)).mean() > 0.02
    assert len(set(np.round(desired, 6))) > 40


@pytest.mark.parametrize("size", SIZES[1:], ids=lambda size: size.name)
def test_flink_er_grows_a_third_of_the_applications_moves_buckets_of_another_and_routes_the_rest(
    size: SnapshotSize,
) -> None:
    snapshot, policy = flow_snapshot(size), FlinkEr()
    plan, _ = policy.decide(snapshot, policy.start())
    assert isinstance(plan, RescalePlan)
    kind = snapshot.tasks.application % 3
    assert {int(kind[task.task]) for task in plan.tasks} == {GROW}
    assert {int(kind[move.task]) for move in plan.buckets} == {MOVE}
    routed = snapshot.edges.consumer[[route.edge for route in plan.routes]]
    assert ROUTE in set(kind[routed].tolist())
    changed = {task.task for task in plan.tasks} | {move.task for move in plan.buckets} | set(routed.tolist())
    assert {int(snapshot.tasks.application[task]) for task in changed} == set(range(size.applications))
    waits = (snapshot.instances.busy_ns, snapshot.instances.core_wait_ns, snapshot.instances.input_wait_ns)
    assert sum(waits) == pytest.approx(snapshot.window_s * 1e9) and all(np.all(part >= 0) for part in waits)


@pytest.mark.parametrize("size", SIZES[1:], ids=lambda size: size.name)
def test_all_rules_of_sage_fire_at_the_last_tick_and_none_before(size: SnapshotSize) -> None:
    *earlier, latest = sizing_snapshots(size)
    policy = Sage()
    memory = policy.start()
    for snapshot in earlier:
        decision, memory = policy.decide(snapshot, memory)
        assert isinstance(decision, NoChange)
    plan, _ = policy.decide(latest, memory)
    assert isinstance(plan, RescalePlan) and len(plan.applications) > 0.85 * size.applications
    assert all(rule.name in plan.reason for rule in RULES)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_work(name: str) -> None:
    speed = measure(name, SIZES[1], 1)
    assert speed.median_ms > 0 and speed.policy == name
