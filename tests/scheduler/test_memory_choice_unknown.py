"""What memory is chosen from, beyond one window: latencies that were seen, state that grows, and held back sources."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.memory_levels import BASE_BYTES, MIB
from penstock.model.plan import NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot, PartitionColumns
from penstock.scheduler.autoscaler_rules import aligned_parallelism
from penstock.scheduler.memory_choice import ChoiceMemory, MemoryChoice
from penstock.scheduler.memory_model import GROWTH_MOST, HIT_SHARE, TaskObservations, price
from tests.papers_cases import cases
from tests.scheduler.scaling_jobs import Job, measured
from tests.scheduler.test_memory_choice import HIT_MS, POLICY, World, modelled_on, size_of, zipf

NAME = ("job", "state")
LARGE = World(zipf(0.3, 3000.0 * MIB), own_s=50e-6, miss_s=800e-6)
SMALL = World(zipf(0.6, 10.0 * MIB), own_s=300e-6, miss_s=800e-6)


def untold(job: Job, held: bool = True, time_s: float = 1000.0) -> ClusterSnapshot:
    """Return what is measured where nobody tells a rate: what the source reads is all that it is offered."""
    snapshot = measured(replace(job, target=job.target * job.share()), time_s, 120.0)
    instances = snapshot.instances
    assert instances.records_in is not None and instances.busy_ns is not None
    source = instances.task == 0
    waits = np.where(source & held, 0.9 * 120e9, 0.0)
    return replace(
        snapshot,
        tasks=replace(snapshot.tasks, target_rate=None),
        instances=replace(instances, output_wait_ns=waits),
        partitions=PartitionColumns([0], appended=instances.records_in[source], consumed=instances.records_in[source]),
    )


@settings(max_examples=cases())
@given(st.floats(0.001, 1.0), st.floats(0.01, 5.0), st.lists(st.floats(0.0, 1.0), min_size=3, max_size=8))
def test_what_a_miss_costs_is_told_by_windows_that_missed_differently(
    hit_ms: float, miss_ms: float, rates: list[float]
) -> None:
    seen = TaskObservations()
    for rate in (0.9, *rates, 0.1):
        seen = seen.with_window(rate, hit_ms + rate * miss_ms)
    assert seen.miss_s(hit_ms) == pytest.approx(miss_ms / 1e3, rel=1e-6)
    assert seen.miss_s(None) * 1e3 == pytest.approx(miss_ms, abs=0.2 * (hit_ms + miss_ms)), "whatever is assumed"


def test_windows_that_missed_alike_leave_it_to_what_is_assumed() -> None:
    seen = TaskObservations()
    for _ in range(4):
        seen = seen.with_window(0.8, 0.25)
    assert seen.miss_s(0.01) == pytest.approx((0.25 - 0.01) / 0.8 / 1e3)
    assert seen.miss_s(None) == pytest.approx((1 - HIT_SHARE) * 0.25 / 0.8 / 1e3)


def test_without_misses_nobody_knows_what_one_costs() -> None:
    unknown = TaskObservations()
    assert np.isnan(unknown.miss_s(0.01)) and np.isnan(unknown.with_window(0.0, 0.02).miss_s(0.01))
    known = unknown.with_window(0.5, 0.4)
    assert known.with_window(float("nan"), 0.1) == known, "a window in which nothing was read tells nothing"


def test_who_does_not_know_what_a_hit_costs_hopes_for_less_from_memory() -> None:
    job = LARGE.at(4, BASE_BYTES, 20_000.0)
    gains = []
    for policy in (MemoryChoice(hit_ms=HIT_MS), MemoryChoice()):
        _, _, model = modelled_on(measured(job, 1000.0, 120.0), policy, ChoiceMemory())
        costs = model.row_cost_s(np.array([[4.0, 4.0]]), np.array([[BASE_BYTES, 632.0 * MIB]]))[0]
        gains.append(costs[0] / costs[1])
    assert gains[0] > gains[1] > 1.05


def with_state(snapshot: ClusterSnapshot, state_bytes: float) -> ClusterSnapshot:
    held = np.where(snapshot.instances.task == 1, state_bytes, 0.0)
    return replace(snapshot, instances=replace(snapshot.instances, state_bytes=held))


@pytest.mark.parametrize(("now", "growth"), [(1.0, 1.0), (1.1, 1 + 0.1 / 1.1 * 180 / 120), (0.5, 1.0), (9.0, 7 / 3)])
def test_state_that_grows_is_expected_to_go_on_until_sizes_can_be_looked_at_again(now: float, growth: float) -> None:
    job = LARGE.at(4, BASE_BYTES, 1000.0)
    _, memory = POLICY.decide(with_state(measured(job, 880.0, 120.0, settled_s=30.0), 1e9), ChoiceMemory())
    _, _, model = modelled_on(with_state(measured(job, 1000.0, 120.0), now * 1e9), POLICY, memory)
    assert model.growth[0] == pytest.approx(min(growth, GROWTH_MOST))
    still = replace(model, growth=np.ones(1))
    sizes = np.array([[8.0]]), np.array([[316.0 * MIB]])
    assert (model.miss_rate(*sizes)[0, 0] > still.miss_rate(*sizes)[0, 0]) == (growth > 1)


@pytest.mark.parametrize("world", [LARGE, SMALL])
@pytest.mark.parametrize("instances", [1, 3, 6])
def test_who_is_not_told_the_rate_goes_as_far_as_ds2_for_less(world: World, instances: int) -> None:
    job = world.at(instances, BASE_BYTES, 1e6)
    snapshot, proposal, model = modelled_on(untold(job), POLICY, ChoiceMemory())
    size = size_of(POLICY.decide(snapshot, ChoiceMemory())[0])
    ds2 = proposal.parallelism[1]
    assert size is not None and size.managed_bytes is not None and ds2 >= 2 * instances
    carries = [p / model.row_cost_s(np.array([[p]]), np.array([[m]]))[0, 0] for p, m in _pairs(size, ds2)]
    assert carries[0] >= carries[1] * (1 - 1e-6), "no less than DS2's would carry"
    assert POLICY.choose(model, snapshot).cost[0] <= ds2 * (1 + (173 * MIB + BASE_BYTES) / (512 * MIB)) * (1 + 1e-9)
    if world is SMALL:
        assert size.parallelism == ds2 and size.managed_bytes < BASE_BYTES, "memory gains nothing else there"


def _pairs(size: TaskSize, ds2: float) -> list[tuple[float, float]]:
    return [(float(size.parallelism), float(size.managed_bytes)), (ds2, float(BASE_BYTES))]


def test_a_rate_that_once_came_freely_is_known() -> None:
    """State grew until the task fell a little short: nobody need leap, for the rate was seen."""
    job = LARGE.at(6, BASE_BYTES, 1e6)
    came = job.target * job.share()
    leaps = modelled_on(untold(job), POLICY, ChoiceMemory())[2].wanted[0]
    knows = ChoiceMemory(observations={NAME: TaskObservations(free_in=1.02 * came)})
    wanted = modelled_on(untold(job), POLICY, knows)[2].wanted[0]
    assert wanted == pytest.approx(2 * 1.02 * came) and wanted < leaps
    long_ago = ChoiceMemory(observations={NAME: TaskObservations(free_in=0.5 * came)})
    assert modelled_on(untold(job), POLICY, long_ago)[2].wanted[0] == leaps, "more comes now than ever came freely"


def test_what_came_is_remembered_only_while_sources_are_free() -> None:
    job = LARGE.at(6, BASE_BYTES, 500.0)
    _, memory = POLICY.decide(untold(job, held=False), ChoiceMemory())
    assert memory.observations[NAME].free_in == pytest.approx(500.0)
    _, later = POLICY.decide(untold(LARGE.at(6, BASE_BYTES, 1e6), held=True, time_s=1120.0), memory)
    assert later.observations[NAME].free_in == pytest.approx(500.0)


def test_a_rate_that_is_told_is_never_leapt_over() -> None:
    job = LARGE.at(2, BASE_BYTES, 1e6)
    snapshot = untold(job)
    told = replace(snapshot, tasks=replace(snapshot.tasks, target_rate=[job.target * job.share(), np.nan, np.nan]))
    wanted = modelled_on(told, POLICY, ChoiceMemory())[2].wanted[0]
    assert wanted == pytest.approx(2 * job.target * job.share())


def test_more_memory_saves_instances_also_where_busy_time_is_in_its_band() -> None:
    job = LARGE.at(20, 112.0 * MIB, 20_000.0)
    busy = job.target / (job.tasks[1].rate or 1.0) / 20
    assert 0.2 < busy < 0.8
    decision, _ = POLICY.decide(measured(job, 1000.0, 120.0), ChoiceMemory())
    size = size_of(decision)
    assert isinstance(decision, RescalePlan) and decision.reason == "other memory carries the same for less"
    assert size is not None and size.parallelism < 20 and (size.managed_bytes or 0) > 112 * MIB
    carried = LARGE.at(size.parallelism, float(size.managed_bytes or 0), 20_000.0)
    assert carried.share() == 1.0


def test_instances_are_never_saved_where_memory_does_not_save_them() -> None:
    """The control: a small state with more instances than half of its time needs stays as it is, as with DS2."""
    job = SMALL.at(20, float(min(POLICY.budgets)), 20_000.0)
    assert isinstance(POLICY.decide(measured(job, 1000.0, 120.0), ChoiceMemory())[0], NoChange)


def test_held_back_sources_are_no_time_to_take_memory_away() -> None:
    job = SMALL.at(4, 632.0 * MIB, 5000.0)
    assert size_of(POLICY.decide(untold(job, held=False), ChoiceMemory())[0]) is not None
    assert size_of(POLICY.decide(untold(job, held=True), ChoiceMemory())[0]) is None


@pytest.mark.parametrize("target", [3_000.0, 20_000.0, 60_000.0])
def test_where_instances_are_aligned_the_price_is_that_of_what_comes_of_them(target: float) -> None:
    job = LARGE.at(2, BASE_BYTES, target)
    job = replace(job, tasks=[replace(task, key_groups=24) for task in job.tasks])
    snapshot = measured(job, 1000.0, 120.0)
    size = size_of(MemoryChoice(hit_ms=HIT_MS, aligns=True).decide(snapshot, ChoiceMemory())[0])
    free = size_of(MemoryChoice(hit_ms=HIT_MS).decide(snapshot, ChoiceMemory())[0])
    assert size is not None and free is not None
    groups = np.array([24.0])
    assert aligned_parallelism(np.array([float(size.parallelism)]), groups, groups)[0] == size.parallelism
    made = aligned_parallelism(np.array([float(free.parallelism)]), groups, groups)[0]
    asked, other = (np.array([float(each.managed_bytes or 0)]) for each in (size, free))
    assert price(np.array([float(size.parallelism)]), asked, 512 * MIB) <= price(np.array([made]), other, 512 * MIB)
