"""Cores that instances need together: tasks that share one too few get others, and are left alone with them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.control.steering import OF_A_JOB, steering
from penstock.model.plan import CoreNeed, Decision, NoChange, RescalePlan, TaskSize, as_dict
from penstock.model.snapshot import ClusterSnapshot, EdgeColumns, MachineColumns, PartitionColumns
from penstock.scheduler.core_needs import busiest_share, core_loads, core_needs, spread_share
from penstock.scheduler.ds2 import Ds2
from penstock.scheduler.limits import PlanLimits
from penstock.scheduler.plan_limits import limited_decision
from tests.papers_cases import cases
from tests.scheduler.scaling_jobs import Job, Task, measured

TARGET = 100.0
ROW_S = 0.8 / TARGET
"""A row takes each of three tasks so long, so that each needs 0.8 of a core."""

LIMITS: dict[str, Any] = {"most_cores": 8.0, "one_per_core": True}


def on_loops(loads: Sequence[float], loop: Sequence[int], loops: int, parallelism: int = 1) -> ClusterSnapshot:
    """Return a job of tasks in a row that need these cores at its target, whose instances are on these loops.

    The caller is a machine without cores. A loop's instances share its core, and what is narrowest holds all up.
    """
    tasks = [Task(f"t{i}", TARGET / load, parallelism) for i, load in enumerate(loads)]
    seen = measured(Job(tasks, [(i, i + 1, 1.0) for i in range(len(loads) - 1)], TARGET), window_s=10.0)
    machine = np.repeat(np.array(loop, np.int32), parallelism)
    each = np.repeat(np.array(loads) / parallelism, parallelism)
    fullest = np.bincount(machine, each, loops + 1)
    share = 1 / max(1.0, float(fullest.max()))
    waits = np.where(fullest[machine] > 1, (fullest[machine] - each) * share, 0.0)
    wall_ns = seen.window_s * 1e9
    taken = np.full(len(each), TARGET * share * seen.window_s / parallelism)
    names = (*(f"tm-{number}" for number in range(loops)), "caller")
    appended = np.array([TARGET * seen.window_s])
    log = PartitionColumns(
        np.array([0]), appended=appended, consumed=appended * share, end_offset=appended * 9, position=appended
    )
    return replace(
        seen,
        tasks=replace(seen.tasks, target_rate=None),
        machines=MachineColumns(names, np.array([1.0] * loops + [0.0]), np.array([50.0] * loops + [np.nan])),
        instances=replace(
            seen.instances,
            machine=machine,
            records_in=taken,
            busy_ns=each * share * wall_ns,
            core_wait_ns=waits * wall_ns,
            output_wait_ns=np.zeros(len(each)),
            input_wait_ns=(1 - each * share - waits).clip(0) * wall_ns,
        ),
        outputs=replace(seen.outputs, records_out=np.full(len(seen.outputs), taken[0])),
        partitions=log,
    )


def two_partitions() -> PartitionColumns:
    half = np.full(2, TARGET * 5.0)
    return PartitionColumns([0, 0], appended=half, consumed=half / 2.4, end_offset=half * 9, position=half)


def shared(loops: int = 1) -> ClusterSnapshot:
    return on_loops([0.8] * 3, [0] * 3, loops)


def decided(name: str, snapshot: ClusterSnapshot, **limits: Any) -> Decision:
    policy = steering(name, OF_A_JOB[name], limits={**LIMITS, **limits}).policy
    memory = policy.start()
    _, memory = policy.decide(replace(snapshot, number=1, time_s=1.0), memory)
    decision, _ = policy.decide(snapshot, memory)
    return decision


@pytest.mark.parametrize("name", ["ds2", "ds2-fitted"])
def test_tasks_that_need_more_than_the_core_that_they_share_are_spread(name: str) -> None:
    plan = decided(name, shared())
    assert isinstance(plan, RescalePlan), plan
    assert plan.tasks == () and plan.cores == (CoreNeed(0, 3.0, spreads=True),)
    assert plan.reason == "job: instances wait for each other's core, and need 3 cores instead of 1"
    assert as_dict(plan)["cores"] == ({"application": 0, "cores": 3.0, "spreads": True},)
    # With a core each nothing is to be done.
    assert isinstance(decided(name, on_loops([0.8] * 3, [0, 1, 2], 3)), NoChange)


def test_flinks_autoscaler_spreads_too_once_its_window_is_over() -> None:
    policy = steering("autoscaler", OF_A_JOB["autoscaler"], limits=LIMITS).policy
    decision, _ = policy.decide(replace(shared(), time_s=1e5), policy.start())
    assert isinstance(decision, RescalePlan)
    assert [need.cores for need in decision.cores] == [3.0]


@pytest.mark.parametrize("name", ["justin", "memory-choice"])
def test_sizes_come_with_the_cores_that_all_need(name: str) -> None:
    policy = steering(name, OF_A_JOB[name], limits=LIMITS).policy
    decision, _ = policy.decide(replace(shared(), time_s=1e5, partitions=two_partitions()), policy.start())
    assert isinstance(decision, RescalePlan) and {size.parallelism for size in decision.tasks} == {2}
    assert decision.cores == (CoreNeed(0, 3.0, spreads=True),)
    # With one partition the source stays, and with it all others in proportion: they are spread.
    one, _ = policy.decide(replace(shared(), time_s=1e5), policy.start())
    assert isinstance(one, RescalePlan) and {size.parallelism for size in one.tasks} <= {1}
    assert one.cores == decision.cores and "refused: job/t0 parallelism: its partitions" in one.reason


def test_a_need_without_end_is_a_core_for_each_instance() -> None:
    loads = core_loads(shared(), np.array([0.8, np.inf, 0.8]))
    (need,) = core_needs(loads, [TaskSize(1, 2)], np.array([True]), 0.1)
    assert need.cores <= 4


def test_papers_policies_ask_for_no_cores() -> None:
    assert isinstance(Ds2().decide(shared(), {})[0], NoChange)
    grown, _ = Ds2().decide(on_loops([0.2, 1.6], [0, 0], 1), {})
    assert isinstance(grown, RescalePlan) and grown.cores == () and "cores" not in as_dict(grown)


def test_instances_that_lie_badly_are_spread_over_what_there_is() -> None:
    plan = decided("ds2", shared(3))
    assert isinstance(plan, RescalePlan) and plan.cores == (CoreNeed(0, 3.0, spreads=True),)


@pytest.mark.parametrize("column", ["core_wait_ns", "busy_ns"])
def test_what_is_not_measured_spreads_nothing(column: str) -> None:
    seen = shared()
    hidden = replace(seen, instances=replace(seen.instances, **{column: None}))
    assert isinstance(decided("ds2", hidden), NoChange)


def test_whoever_waits_for_answers_leaves_its_core_to_others() -> None:
    """Calls of `map_async` wait beside each other; a function that blocks has its loop, and counts as busy."""
    seen = shared()
    part = np.array([1.0, 0.25, 1.0])
    busy_ns = seen.instances.busy_ns
    waits = replace(seen.instances, busy_ns=busy_ns * part, remote_wait_ns=busy_ns * (1 - part))
    needed = np.array([0.8, 0.8, 0.8])
    assert core_loads(replace(seen, instances=waits), needed).each.tolist() == pytest.approx([0.8, 0.2, 0.8])
    assert core_loads(seen, needed).each.sum() == pytest.approx(2.4)
    in_caller = replace(seen, instances=replace(seen.instances, machine=np.array([1, 0, 0], np.int32)))
    assert core_loads(in_caller, needed).each.tolist() == pytest.approx([0.0, 0.8, 0.8]), "it needs none of a loop"


def test_what_forward_edges_join_stays_together() -> None:
    seen = shared()
    joined = replace(seen, edges=replace(seen.edges, is_forward=np.array([True, True])))
    assert isinstance(decided("ds2", joined), NoChange), "no placement takes them apart"
    part = replace(seen, edges=EdgeColumns([0, 1], [1, 2], [True, True], is_forward=[True, False]))
    plan = decided("ds2", part)
    assert isinstance(plan, RescalePlan) and plan.cores == (CoreNeed(0, 2.0, spreads=True),), "two units are on no more"


@pytest.mark.parametrize(("most", "granted"), [(8.0, 3.0), (3.9, 3.0), (2.0, 2.0), (1.0, None)])
def test_a_quota_bounds_the_cores(most: float, granted: float | None) -> None:
    plan = decided("ds2", shared(), most_cores=most)
    if granted is None:
        assert plan == NoChange("refused: job task managers: the quota of cores")
        return
    assert isinstance(plan, RescalePlan) and plan.cores == (CoreNeed(0, granted, spreads=True),)
    assert ("refused: job task managers" in plan.reason) is (granted < 3)


def test_an_impossible_need_is_taken_out() -> None:
    seen = shared()
    for need in (CoreNeed(7, 2.0, True), CoreNeed(0, np.nan, True), CoreNeed(0, np.inf, True), CoreNeed(0, -1.0, True)):
        allowed, refusals = limited_decision(
            RescalePlan("", cores=(need,)), seen, PlanLimits(), np.zeros(len(seen.tasks), np.bool_)
        )
        assert isinstance(allowed, NoChange) and len(refusals) == 1


@settings(max_examples=cases(), deadline=None)
@given(st.lists(st.floats(0.02, 0.95), min_size=1, max_size=8), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_once_spread_a_job_has_what_it_needs_and_is_left_alone(loads: list[float], loops: int, seed: int) -> None:
    loop = np.random.default_rng(seed).integers(0, loops, len(loads)).tolist()
    seen, needed = on_loops(loads, loop, loops), np.array(loads)
    every = np.ones(1, np.bool_)
    needs = core_needs(core_loads(seen, needed), (), every, 0.1)
    if not needs:
        # All have what they need, or hardly gain if they are spread.
        fullest = np.bincount(loop, loads).max()
        assert fullest <= 1 + 1e-9 or loops >= 1
        return
    (need,) = needs
    count = int(np.ceil(need.cores - 1e-9))
    assert need.spreads and sum(loads) <= count <= max(len(loads), loops)
    levels, place = np.zeros(count), {}
    for task in sorted(range(len(loads)), key=lambda task: -loads[task]):
        place[task] = int(levels.argmin())
        levels[place[task]] += loads[task]
    assert levels.max() <= 1.0
    after = on_loops(loads, [place[task] for task in range(len(loads))], count)
    assert core_needs(core_loads(after, needed), (), every, 0.1) == ()
    assert busiest_share(after, 0) == pytest.approx(spread_share(seen, 0, count)) and busiest_share(seen, 0) > 0


def test_a_task_that_grows_brings_the_cores_that_all_need() -> None:
    plan = decided("ds2", on_loops([0.2, 1.6, 0.9], [0, 0, 1], 2))
    assert isinstance(plan, RescalePlan) and [size.parallelism for size in plan.tasks] == [2]
    # On three one would be full: with 0.8 it has no room for 0.2.
    assert plan.cores == (CoreNeed(0, 4.0, spreads=True),)
    alone = decided("ds2", on_loops([0.05, 1.6, 0.9], [0, 1, 2], 3))
    assert isinstance(alone, RescalePlan) and alone.cores == (CoreNeed(0, 3.0),)


@pytest.mark.parametrize(
    ("loads", "cores"), [([1.9], 2.0), ([0.1, 1.9], 3.0), ([0.6, 1.2, 0.6], 4.0), ([0.2, 1.2], 2.0)]
)
def test_there_are_no_more_cores_than_carry_instances_one_by_one(loads: list[float], cores: float) -> None:
    """Two instances of 0.95 are on two cores, though a tenth more than 1.9 is more; two of 0.6 are not on one."""
    policy = Ds2(scales_sources=True, cores_margin=0.1)
    needs = policy.decide(on_loops(loads, list(range(len(loads))), len(loads)), {})[0]
    assert isinstance(needs, RescalePlan) and needs.cores == (CoreNeed(0, cores),)
