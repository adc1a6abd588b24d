"""DS2 on a fitted curve: it learns how instances add up, and noise moves nothing that carries its target."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.model.plan import NoChange, RescalePlan, TaskSize
from penstock.scheduler.ds2 import Ds2
from penstock.scheduler.ds2_fitted import Ds2Fitted, fitted_cost
from penstock.scheduler.pacing import Pace
from tests.scheduler.scaling_jobs import Job, Task, measured

EAGER = Ds2Fitted(Ds2(Pace(interval_s=10.0, warm_up_s=0.0)))


def job(rate: float, parallelism: int, **of_task: int) -> Job:
    tasks = [Task("source", None), Task("count", rate, parallelism, True, **of_task)]
    return Job(tasks, [(0, 1, 1.0)], target=10_000.0)


def test_the_cost_of_a_row_is_a_line_through_what_was_seen() -> None:
    points = tuple((float(p), 1e-3 * (1 + 0.02 * (p - 1))) for p in (1, 5, 10))
    offset, slope = fitted_cost(points, 1.0)
    assert (offset, slope) == pytest.approx((0.98e-3, 0.02e-3))
    assert fitted_cost(points[:1] * 3, 1.0) == pytest.approx((1e-3, 0.0)), "of one p nothing is known of others"
    assert fitted_cost(points, 1e-6)[1] == 1e-6 and fitted_cost(points[::-1], 1.0)[1] == pytest.approx(0.02e-3)
    falling = tuple((p, 1e-3 / p) for p, _ in points)
    assert fitted_cost(falling, 1.0)[1] == 0.0


def test_what_was_seen_leads_to_instances_that_suffice() -> None:
    """p instances do 1000 p / (1 + 0.02 (p - 1)) rows a second: 10 are asked for first, and 13 carry 10,000."""
    memory, parallelism = EAGER.start(), 1
    for turn in range(1, 8):
        rate = 1000.0 / (1 + 0.02 * (parallelism - 1))
        decision, memory = EAGER.decide(measured(job(rate, parallelism), 100.0 * turn), memory)
        if isinstance(decision, RescalePlan):
            (size,) = decision.tasks
            parallelism = size.parallelism
    assert parallelism == 13 and isinstance(decision, NoChange)


def test_noise_of_a_tenth_moves_nothing_that_carries_its_target() -> None:
    random, memory = np.random.default_rng(1), EAGER.start()
    acts, plain, turns = 0, 0, EAGER.ds2.start()
    for turn in range(1, 41):
        snapshot = measured(job(1050.0, 10), 100.0 * turn)
        busy = snapshot.instances.busy_ns * random.normal(1.0, 0.1)
        snapshot = replace(snapshot, instances=replace(snapshot.instances, busy_ns=busy))
        decision, memory = EAGER.decide(snapshot, memory)
        acts += isinstance(decision, RescalePlan)
        decision, turns = EAGER.ds2.decide(snapshot, turns)
        plain += isinstance(decision, RescalePlan)
    assert acts == 0 < plain


def test_the_second_instance_is_freed_where_there_is_a_margin_and_room_for_it() -> None:
    paper, margin = EAGER, replace(EAGER, ds2=replace(EAGER.ds2, shrink_margin=0.1))
    for rate, frees in ((12_000.0, True), (10_500.0, False)):
        decision, _ = paper.decide(measured(job(rate, 2)), paper.start())
        assert isinstance(decision, NoChange), "as DS2's own manager has it, which frees two at least"
        decision, _ = margin.decide(measured(job(rate, 2)), margin.start())
        assert isinstance(decision, RescalePlan) == frees
        assert not isinstance(decision, RescalePlan) or decision.tasks == (TaskSize(1, 1),)


@pytest.mark.parametrize("scales_sources", [True, False])
def test_a_source_that_works_is_sized_if_sources_are(scales_sources: bool) -> None:
    """What needs no exchange is chained to the source of a job, and may be all of the work."""
    policy = replace(EAGER, ds2=replace(EAGER.ds2, scales_sources=scales_sources))
    snapshot = measured(Job([Task("source", 1000.0)], [], target=3000.0))
    tasks = replace(snapshot.tasks, is_source=np.ones(1, np.bool_))
    decision, _ = policy.decide(replace(snapshot, tasks=tasks), policy.start())
    assert isinstance(decision, RescalePlan) == scales_sources
    assert not isinstance(decision, RescalePlan) or decision.tasks == (TaskSize(0, 3),)


def test_keyed_tasks_have_no_more_instances_than_key_groups_and_unknown_ones_stay() -> None:
    decision, _ = EAGER.decide(measured(job(500.0, 2, key_groups=8)), EAGER.start())
    assert isinstance(decision, RescalePlan) and decision.tasks == (TaskSize(1, 8),)
    nothing = replace(measured(job(500.0, 2)), outputs=type(measured(job(1.0, 1)).outputs).none())
    decision, memory = EAGER.decide(nothing, EAGER.start())
    assert isinstance(decision, NoChange) and decision.reason.startswith("not measured") and memory.points == {}
    with pytest.raises(ValueError, match="carried is in"):
        Ds2Fitted(carried=0.0)


def test_a_source_is_sized_where_sources_are() -> None:
    """What is chained to a source may be all of the work of a job."""
    busy = measured(Job([Task("all of it", 400.0, 1)], [], target=1_000.0))
    behind = replace(busy, instances=replace(busy.instances, records_in=np.array([4_000.0]), busy_ns=np.array([1e10])))
    sized, _ = replace(EAGER, ds2=replace(EAGER.ds2, scales_sources=True)).decide(behind, EAGER.start())
    assert isinstance(sized, RescalePlan) and sized.tasks == (TaskSize(0, 3),)
    assert isinstance(EAGER.decide(behind, EAGER.start())[0], NoChange)
