"""The largest share of a plan that fits a quota of memory: instances and memory together, in random plans."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.memory_levels import LEAST_BYTES, MIB
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.limits import PlanLimits
from penstock.scheduler.plan_limits import limited_decision
from penstock.scheduler.quota_shares import Sizes
from tests.papers_cases import cases
from tests.scheduler.scaling_jobs import Job, Task, measured

NOBODY = np.zeros(3, np.bool_)


def seen(counts: tuple[int, int], managed: tuple[int, int]) -> ClusterSnapshot:
    """Return what is seen of a source and two tasks with state, of so many instances and bytes in each."""
    stateful = [
        Task(name, 1000.0, count, True, 0, float(size), key_groups=1 << 12)
        for name, count, size in zip(("one", "two"), counts, managed, strict=True)
    ]
    return measured(
        Job([Task("source", None, managed=0.0), *stateful], [(0, 1, 1.0), (1, 2, 1.0)], 1000.0), 100.0, 10.0
    )


def limited(snapshot: ClusterSnapshot, sizes: tuple[TaskSize, ...], quota: float | None) -> Decision:
    limits = PlanLimits(most_memory_bytes=quota, step_factor=100.0)
    return limited_decision(RescalePlan("", sizes), snapshot, limits, NOBODY)[0]


def total(snapshot: ClusterSnapshot, decision: Decision) -> float:
    """Return the bytes of all state once a decision is carried out."""
    count = np.bincount(snapshot.instances.task, minlength=3).astype(float)
    managed = np.zeros(3)
    np.maximum.at(managed, snapshot.instances.task, snapshot.instances.managed_bytes)  # type: ignore[arg-type]
    for size in getattr(decision, "tasks", ()):
        count[size.task] = size.parallelism
        managed[size.task] = managed[size.task] if size.managed_bytes is None else size.managed_bytes
    return float((count * managed).sum())


COUNT, MEMORY = st.integers(1, 12), st.integers(LEAST_BYTES, 400 * MIB)
SIZE = st.tuples(COUNT, st.one_of(st.none(), MEMORY, st.integers(1, 3).map(lambda level: -level)))


@settings(max_examples=cases())
@given(st.tuples(COUNT, COUNT), st.tuples(MEMORY, MEMORY), st.tuples(SIZE, SIZE), st.floats(0.0, 2.0))
def test_no_plan_leaves_its_quota_and_one_that_fits_is_left_as_it_is(
    counts: tuple[int, int],
    managed: tuple[int, int],
    asked: tuple[tuple[int, int | None], tuple[int, int | None]],
    room: float,
) -> None:
    snapshot = seen(counts, managed)
    sizes = []
    for task, ((count, wanted), now) in enumerate(zip(asked, managed, strict=True), 1):
        # What is below 0 stands for a level.
        level = None if wanted is None or wanted > 0 else -wanted
        sizes.append(TaskSize(task, count, level, wanted if level is None else now << level))
    plan = RescalePlan("", tuple(sizes))
    now, whole = total(snapshot, NoChange("")), total(snapshot, plan)
    quota = now * (1 + room)
    given = limited(snapshot, plan.tasks, quota)
    assert total(snapshot, given) <= max(quota, now)
    if whole <= quota:
        assert given == plan
    for size in getattr(given, "tasks", ()):
        wanted, had = plan.tasks[size.task - 1], managed[size.task - 1]
        assert min(counts[size.task - 1], wanted.parallelism) <= size.parallelism
        assert size.parallelism <= max(counts[size.task - 1], wanted.parallelism)
        if size.managed_bytes is not None and wanted.managed_bytes is not None:
            assert min(had, wanted.managed_bytes) <= size.managed_bytes <= max(had, wanted.managed_bytes)
        if size.memory_level is not None:
            assert size.managed_bytes == had << size.memory_level, "levels are doublings"
        if size.parallelism < counts[size.task - 1] and (wanted.managed_bytes or 0) > had and whole > quota:
            assert size.managed_bytes is not None, "fewer instances come with the memory that they are to have"


@settings(max_examples=cases())
@given(COUNT, MEMORY, COUNT, MEMORY, st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_a_larger_share_is_more_of_what_grows(
    count: int, managed: int, wanted: int, target: int, shares: list[float]
) -> None:
    one = np.array([1])
    sizes = Sizes(one, one * count, one * wanted, one * float(managed), one * float(target), one * 0 - 1)
    granted = [sizes.at(share, counts_too=True) for share in sorted({0.0, *shares, 1.0})]
    for less, more in pairwise(granted):
        assert less.managed[0] <= more.managed[0] or target < managed
        assert less.count[0] <= more.count[0] or wanted < count
        assert less.count[0] >= more.count[0] or wanted > count
    assert (granted[-1].count[0], granted[-1].managed[0]) == (wanted, target)


def test_instances_that_memory_is_to_replace_stay_as_far_as_it_is_not_given() -> None:
    """1 GB is wanted in one instance for 4 of 100 MiB: of 0.9 GB it gets most, of little as much as it had."""
    snapshot = seen((4, 1), (100 * MIB, LEAST_BYTES))
    cut = limited(snapshot, (TaskSize(1, 1, None, 10**9),), 0.9e9)
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(1, 1, None, 856 * MIB),)
    cut = limited(snapshot, (TaskSize(1, 1, None, 10**9),), 460.0 * MIB)
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(1, 4, None, 114 * MIB),)
    level = limited(snapshot, (TaskSize(1, 1, 3, 800 * MIB),), 780.0 * MIB)
    assert isinstance(level, RescalePlan) and level.tasks == (TaskSize(1, 1, 2, 400 * MIB),)
    none = limited(snapshot, (TaskSize(1, 2, 3, 800 * MIB),), 420.0 * MIB)
    assert isinstance(none, NoChange) and none.reason.startswith("refused: job/one")


def test_of_memory_over_the_quota_as_much_is_given_as_fits() -> None:
    """What there is in whole MiB, of levels one below."""
    snapshot = seen((1, 2), (LEAST_BYTES, 160 * MIB))
    cut = limited(snapshot, (TaskSize(2, 2, None, 10 * 10**9),), 1e9)
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(2, 2, None, 475 * MIB),)
    assert "job/two memory: the quota of memory" in cut.reason
    leveled = (TaskSize(2, 2, 2, 640 * MIB),)
    cut = limited(snapshot, leveled, 1e9)
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(2, 2, 1, 320 * MIB),)
    assert isinstance(limited(snapshot, leveled, 4e8), NoChange)


def test_less_memory_than_a_store_needs_is_its_floor() -> None:
    snapshot = seen((1, 2), (10 * MIB, 10 * MIB))
    cut = limited(snapshot, (TaskSize(0, 1, None, 0), TaskSize(2, 2, None, 1000)), None)
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(0, 1, None, 0), TaskSize(2, 2, None, LEAST_BYTES))
    assert "job/two memory: the floor" in cut.reason


def test_a_level_without_bytes_counts_as_what_it_is() -> None:
    snapshot = seen((2, 1), (100 * MIB, LEAST_BYTES))
    assert isinstance(limited(snapshot, (TaskSize(1, 2, 1),), 300.0 * MIB), NoChange)
    cut = limited(snapshot, (TaskSize(1, 2, 2),), 500.0 * MIB)
    assert isinstance(cut, RescalePlan) and cut.tasks == (TaskSize(1, 2, 1, 200 * MIB),)


@pytest.mark.parametrize("is_given", [True, False])
def test_of_memory_that_machines_have_instances_are_no_part(is_given: bool) -> None:
    snapshot = seen((2, 2), (100 * MIB, 100 * MIB))
    limit = np.full(len(snapshot.machines), 500.0 * MIB / len(snapshot.machines))
    small = replace(snapshot, machines=replace(snapshot.machines, memory_limit_bytes=limit))
    cut = limited(small, (TaskSize(1, 6), TaskSize(2, 2, None, 140 * MIB)), 500.0 * MIB if is_given else None)
    assert isinstance(cut, RescalePlan)
    if is_given:
        assert total(small, cut) <= 500 * MIB
    else:
        assert cut.tasks[0] == TaskSize(1, 6)
