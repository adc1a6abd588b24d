"""What decisions are timed on: snapshots of the sizes that are promised, on which every policy has work."""

import numpy as np
import pytest

from penstock.benchmarks.papers.decision_speed import POLICIES, measure
from penstock.benchmarks.papers.large_snapshots import SIZES, Size, large_snapshot
from penstock.model.plan import ShedPlan
from penstock.shedding.qod import PAPER, PENSTOCK, QualityOfData
from penstock.shedding.qod_figures import Figures, read
from penstock.shedding.qod_sources import NO_LAGS


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_there_is_as_much_as_the_size_says(size: Size) -> None:
    snapshot = large_snapshot(size)
    groups = (snapshot.instances, snapshot.tasks, snapshot.applications, snapshot.machines)
    assert [len(group) for group in groups] == [size.instances, size.tasks, size.applications, size.machines]
    assert snapshot.tasks.is_source.sum() == size.sources
    assert len(set(snapshot.queries.priority.tolist())) == 3
    assert 0 < snapshot.edges.is_free.sum() < len(snapshot.edges)


@pytest.mark.parametrize("policy", [PAPER, PENSTOCK], ids=["paper", "penstock"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_a_third_of_the_machines_need_kills_and_accuracy_is_shared_out(size: Size, policy: QualityOfData) -> None:
    snapshot = large_snapshot(size)
    figures = read(snapshot, policy.reading, NO_LAGS)
    assert isinstance(figures, Figures)
    required = np.bincount(figures.machine, figures.min_req_cpu, size.machines)
    short = set(np.flatnonzero(required > figures.a_cpu).tolist())
    assert len(short) == pytest.approx(size.machines / 3, abs=0.02 * size.machines + 1)
    decision, _ = policy.decide(snapshot, policy.start())
    assert isinstance(decision, ShedPlan) and not decision.failed
    assert {int(snapshot.instances.machine[move.instance]) for move in decision.moves} == short
    desired = np.array(decision.desired_accuracy)
    assert ((desired > snapshot.queries.minimum_accuracy + 1e-6) & (desired < 1)).mean() > 0.03
    assert len(set(np.round(desired, 6))) > 40


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_work(name: str) -> None:
    speed = measure(name, SIZES[1], 1)
    assert speed.median_ms > 0 and speed.policy == name
