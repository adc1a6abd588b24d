"""DS2: what the paper promises of its parallelism, when it may act, in how many steps."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import NoChange, RescalePlan, not_measured
from penstock.model.snapshot import ClusterSnapshot, InstanceColumns, PartitionColumns
from penstock.scheduler.busy_band import BusyBand
from penstock.scheduler.ds2 import Ds2, instances_needed, optimal_parallelism
from penstock.scheduler.pacing import Pace, PaceState
from penstock.scheduler.propagation import propagate
from penstock.scheduler.true_rates import task_rates
from tests.papers_cases import cases
from tests.scheduler.scaling_jobs import Job, Task, measured, random_job

SEEDS = st.integers(0, 2**32 - 1)
AT_ONCE = Ds2(Pace(interval_s=10.0, warm_up_s=20.0, activation=1))


def proposed(job: Job, policy: Ds2 = AT_ONCE) -> list[int]:
    return policy.propose(measured(job)).parallelism.astype(int).tolist()


def sizes(decision: object) -> dict[int, int]:
    assert isinstance(decision, RescalePlan)
    return {size.task: size.parallelism for size in decision.tasks}


def word_count(split: int = 1, count: int = 1, target: float = 1000.0) -> Job:
    """Lines of ten words; an instance splits 300 lines a second, or counts 2,400 words."""
    tasks = [Task("lines", None), Task("split", 300.0, split), Task("count", 2400.0, count, is_stateful=True)]
    return Job(tasks, [(0, 1, 1.0), (1, 2, 10.0)], target)


def test_word_count_needs_one_step() -> None:
    decision, memory = AT_ONCE.decide(measured(word_count()), AT_ONCE.start())
    assert sizes(decision) == {1: 4, 2: 5}
    assert decision.numbers["cores"] == pytest.approx(1000 / 300 + 10_000 / 2400 + 1000 / 24_000), "the source's too"
    assert decision.numbers["job/count instances"] == pytest.approx(10_000 / 2400)
    after, _ = AT_ONCE.decide(measured(word_count(4, 5), time_s=200.0), memory)
    assert after == NoChange("capacity suffices")


@settings(max_examples=cases())
@given(SEEDS, st.floats(0, 2))
def test_at_least_one_instance_and_enough_for_what_comes(seed: int, factor: float) -> None:
    job = random_job(seed)
    found = np.array(proposed(job, Ds2(factor=factor)))
    assert (found >= 1).all()
    for task, rate, p in zip(job.tasks, job.wanted(), found, strict=True):
        if task.rate is not None:
            needed = (1 + factor) * rate / task.rate
            assert needed * (1 - 1e-6) <= p < max(needed + 1, 1.000001)


def test_an_error_of_floats_is_no_instance() -> None:
    needed = instances_needed(np.array([0.1 + 0.2]), np.array([0.1]), np.array([1.0]))
    assert needed[0] > 3 and optimal_parallelism(needed, 0.0).tolist() == [3]
    assert optimal_parallelism(np.array([3.0001]), 0.0).tolist() == [4]


def test_a_source_that_shall_read_nothing_leaves_one_instance() -> None:
    snapshot = measured(word_count(4, 5))
    silent = replace(snapshot, tasks=replace(snapshot.tasks, target_rate=[0.0, np.nan, np.nan]))
    assert Ds2().propose(silent).parallelism.tolist() == [1, 1, 1]


@settings(max_examples=cases())
@given(SEEDS, st.floats(1, 4))
def test_more_is_asked_of_faster_sources_never_less(seed: int, more: float) -> None:
    job = random_job(seed)
    assert all(a <= b for a, b in zip(proposed(job), proposed(replace(job, target=job.target * more)), strict=True))


@settings(max_examples=cases())
@given(SEEDS, st.floats(1, 4), st.integers(0, 10))
def test_faster_instances_never_need_more(seed: int, faster: float, which: int) -> None:
    job = random_job(seed)
    below = [t for t, task in enumerate(job.tasks) if task.rate is not None]
    one = below[which % len(below)]
    tasks = [replace(t, rate=t.rate * faster) if i == one and t.rate else t for i, t in enumerate(job.tasks)]
    assert all(a >= b for a, b in zip(proposed(job), proposed(replace(job, tasks=tasks)), strict=True))


@settings(max_examples=cases())
@given(SEEDS, st.floats(1e-3, 1e3))
def test_rates_and_capacities_by_the_same_factor_change_nothing(seed: int, k: float) -> None:
    job = random_job(seed)
    tasks = [replace(task, rate=task.rate * k) if task.rate else task for task in job.tasks]
    assert proposed(job) == proposed(replace(job, tasks=tasks, target=job.target * k))


@settings(max_examples=cases())
@given(SEEDS)
def test_what_several_inputs_bring_adds_up(seed: int) -> None:
    job = random_job(seed)
    found = AT_ONCE.propose(measured(job)).target_in
    assert np.allclose(found, job.wanted(), rtol=1e-9)


@settings(max_examples=cases())
@given(st.floats(10, 1000), st.floats(1.01, 1.99))
def test_a_chain_of_five_does_not_add_up_its_roundings(rate: float, load: float) -> None:
    tasks = [Task("s", None), *(Task(f"t{i}", rate) for i in range(5))]
    job = Job(tasks, [(i, i + 1, 1.0) for i in range(5)], rate * load)
    assert proposed(job)[1:] == [2] * 5
    assert set(proposed(job, Ds2(factor=0.1))[1:]) == {2 if 1.1 * load <= 2 else 3}
    assert rounded_on(rate, load)[-1] >= 6, "each sized for what the rounded one above it could send"


def rounded_on(rate: float, load: float) -> list[int]:
    flow, found = np.array(rate * load), []
    for _ in range(5):
        found.append(int(optimal_parallelism(instances_needed(flow, np.array(rate), np.array(1.0)), 0.1)))
        flow = np.array(found[-1] * rate)
    return found


@settings(max_examples=cases())
@given(SEEDS, st.floats(0, 39.9), st.booleans())
def test_nothing_happens_within_the_warm_up(seed: int, later: float, own: bool) -> None:
    job = replace(random_job(seed), target=1e5)
    policy = Ds2(Pace(interval_s=10.0, warm_up_s=30.0))
    if own:
        decision, memory = policy.decide(measured(job, time_s=100.0), policy.start())
        assert isinstance(decision, RescalePlan)
        decision, _ = policy.decide(measured(job, time_s=100.0 + later), memory)
    else:
        decision, _ = policy.decide(measured(job, settled_s=later), policy.start())
    assert isinstance(decision, NoChange)
    assert "warm-up" in decision.reason or "interval" in decision.reason


@settings(max_examples=cases())
@given(SEEDS)
def test_the_same_rates_again_change_nothing(seed: int) -> None:
    job = random_job(seed)
    _, memory = AT_ONCE.decide(measured(job), AT_ONCE.start())
    again, _ = AT_ONCE.decide(measured(job), memory)
    assert isinstance(again, NoChange)
    after = job.sized(proposed(job))
    assert AT_ONCE.decide(measured(after, time_s=500.0), memory)[0] == NoChange("capacity suffices")


def test_one_instance_less_is_no_reason_and_two_are() -> None:
    assert isinstance(AT_ONCE.decide(measured(word_count(5, 6)), {})[0], NoChange)
    assert sizes(AT_ONCE.decide(measured(word_count(6, 6)), {})[0]) == {1: 4, 2: 5}


@pytest.mark.parametrize(("target", "freed"), [(109.0, True), (110.0, False), (120.0, False), (60.0, True)])
def test_with_a_margin_one_instance_less_is_a_reason_once_the_need_fits(target: float, freed: bool) -> None:
    # An instance splits 120 lines a second: a tenth on top of 109 fits into one.
    job = Job([Task("lines", None), Task("split", 120.0, 2)], [(0, 1, 1.0)], target)
    assert isinstance(AT_ONCE.decide(measured(job), {})[0], NoChange)
    policy = replace(AT_ONCE, shrink_margin=0.1)
    decision, _ = policy.decide(measured(job), {})
    assert (isinstance(decision, RescalePlan) and sizes(decision) == {1: 1}) is freed
    with pytest.raises(ValueError, match="a margin are at least 0"):
        Ds2(shrink_margin=-0.1)


def test_without_a_margin_a_task_that_needs_nothing_keeps_its_second_instance() -> None:
    snapshot = measured(word_count(2, 2, 500.0))
    silent = replace(snapshot, tasks=replace(snapshot.tasks, target_rate=[0.0, np.nan, np.nan]))
    assert AT_ONCE.propose(silent).parallelism.tolist() == [1, 1, 1]
    with np.errstate(invalid="raise"):
        assert isinstance(AT_ONCE.decide(silent, {})[0], NoChange)


def test_it_acts_from_the_nth_evaluation_on() -> None:
    policy, memory = Ds2(Pace(10.0, 20.0, activation=3)), {}
    kinds = []
    for time_s in (100.0, 110.0, 115.0, 120.0):
        decision, memory = policy.decide(measured(word_count(), time_s=time_s), memory)
        kinds.append(type(decision).__name__)
    assert kinds == ["NoChange", "NoChange", "NoChange", "RescalePlan"]


def test_evaluations_from_before_another_ones_action_do_not_count() -> None:
    policy, memory = Ds2(Pace(10.0, 0.0, activation=2)), {}
    kinds = []
    for time_s, settled_s in ((100.0, 1e6), (115.0, 12.0), (130.0, 27.0)):
        decision, memory = policy.decide(measured(word_count(), time_s=time_s, settled_s=settled_s), memory)
        kinds.append(type(decision).__name__)
    assert kinds == ["NoChange", "NoChange", "RescalePlan"]


def test_the_ratio_of_rates_corrects_what_true_rates_do_not_see() -> None:
    job = word_count(4, 5)
    slow = measured(job)
    outputs = replace(slow.outputs, records_out=slow.outputs.records_out / 2)
    halved = replace(slow, instances=scaled(slow, 0.5), outputs=outputs)
    assert isinstance(Ds2().decide(halved, {})[0], NoChange)
    assert sizes(Ds2(target_rate_ratio=1.5).decide(halved, {})[0]) == {1: 8, 2: 10}
    assert isinstance(Ds2(target_rate_ratio=2.5).decide(halved, {})[0], NoChange)


def scaled(snapshot: ClusterSnapshot, by: float) -> InstanceColumns:
    """Half the rows in half the useful time: the true rates stay."""
    instances = snapshot.instances
    return replace(instances, records_in=instances.records_in * by, busy_ns=instances.busy_ns * by)


def test_outputs_are_by_edge() -> None:
    tasks = [Task("s", None), Task("split", 100.0), Task("rare", 10.0), Task("often", 10.0)]
    job = Job(tasks, [(0, 1, 1.0), (1, 2, 0.1), (1, 3, 5.0)], 100.0)
    assert proposed(job) == [1, 1, 1, 50]


def test_four_instances_on_one_core_are_found_to_be_the_bottleneck() -> None:
    snapshot = measured(word_count(4, 4, target=1200.0))
    split = snapshot.instances.task == 1
    quarter = np.where(split, 2.5e9, snapshot.instances.busy_ns)
    waits = np.where(split, 7.5e9, 0.0)
    rows = np.where(split, 0.25 * 300 * 10, snapshot.instances.records_in)
    alike = replace(snapshot.instances, busy_ns=quarter, core_wait_ns=waits, records_in=rows)
    shared = replace(snapshot, instances=alike)
    proposal = Ds2().propose(shared)
    assert proposal.rates.busy_share[1] == pytest.approx(1.0)
    assert proposal.instances[1] == pytest.approx(4.0), "cores to ask for: true rates are those of a whole core"
    held = replace(shared, instances=replace(shared.instances, output_wait_ns=np.where(split, 0, 9e9)))
    assert BusyBand().bottlenecks(held, Ds2().propose(held).rates).tolist() == [False, True, False]
    idle = replace(held, instances=replace(held.instances, core_wait_ns=np.zeros(len(split))))
    assert not BusyBand().bottlenecks(idle, Ds2().propose(idle).rates).any(), "busy time alone does not say so"


def test_shed_rows_count_as_wanted() -> None:
    """Half the lines are shed at the source and half the words on the edge; the need is that of all of them."""
    snapshot = measured(word_count(4, 5))
    shed = replace(
        snapshot,
        instances=scaled(snapshot, 0.5),
        outputs=replace(
            snapshot.outputs,
            records_out=snapshot.outputs.records_out * 0.5,
            dropped=snapshot.outputs.records_out * 0.25,
        ),
    )
    assert Ds2().propose(shed).instances == pytest.approx(Ds2().propose(snapshot).instances, nan_ok=True)


@pytest.mark.parametrize("column", ["records_in", "busy_ns", "remote_wait_ns"])
def test_what_was_not_measured_is_said(column: str) -> None:
    snapshot = measured(word_count())
    hidden = replace(snapshot, instances=replace(snapshot.instances, **{column: None}))
    decision, _ = AT_ONCE.decide(hidden, {})
    assert isinstance(decision, NoChange) and decision.reason.startswith("not measured: figures of task")
    one = np.array(getattr(snapshot.instances, column))
    one[-1] = np.nan
    partly = replace(snapshot, instances=replace(snapshot.instances, **{column: one}))
    for memory in ({}, {"job": PaceState(evaluations=3)}):
        assert AT_ONCE.decide(partly, memory)[0] == not_measured("figures of task 'count' of 'job'")


def test_instances_that_do_not_run_are_waited_for() -> None:
    snapshot = measured(word_count())
    stopped = replace(snapshot, instances=replace(snapshot.instances, is_running=[True, True, False]))
    assert AT_ONCE.decide(stopped, {})[0] == NoChange("instances of 'job' do not run")


def test_a_keyed_task_never_gets_more_instances_than_key_groups() -> None:
    job = word_count(target=1e6)
    assert sizes(AT_ONCE.decide(measured(job), {})[0])[2] == 128
    assert Ds2().propose(measured(job)).capped.tolist() == [False, False, True]


def test_a_source_that_is_behind_counts_as_one_that_waits() -> None:
    """It shares its core with a task that is too busy: it does not come to read, and never finds a channel full."""
    job = Job([Task("source", None), Task("narrow", 100.0)], [(0, 1, 1.0)], 100.0)
    seen = measured(job)
    narrow = seen.instances.task == 1
    busy = np.where(narrow, 0.97 * seen.window_s * 1e9, seen.instances.busy_ns)
    still = replace(seen.instances, busy_ns=busy, output_wait_ns=np.zeros(len(seen.instances)))
    rates = task_rates(replace(seen, instances=still))
    for lag_rows, lag_s, found in ((50.0, 1.0, False), (1e4, 1.0, True), (1e4, inf, False)):
        appended = np.array([100.0 * seen.window_s])
        log = PartitionColumns(
            np.array([0]), appended=appended, consumed=appended, end_offset=appended + lag_rows, position=appended
        )
        behind = replace(seen, instances=still, partitions=log)
        assert BusyBand(lag_s=lag_s).bottlenecks(behind, rates).tolist() == [False, found]


def test_a_source_that_does_all_of_the_work_may_be_the_bottleneck_of_a_job() -> None:
    seen = measured(Job([Task("all of it", None)], [], 100.0))
    busy = replace(seen.instances, busy_ns=np.full(len(seen.instances), 0.97 * seen.window_s * 1e9))
    appended = np.array([100.0 * seen.window_s])
    log = PartitionColumns(
        np.array([0]), appended=appended, consumed=appended, end_offset=appended + 1e4, position=appended
    )
    behind = replace(seen, instances=busy, partitions=log)
    for lag_s, found in ((1.0, True), (1e6, False), (inf, False)):
        assert BusyBand(lag_s=lag_s).bottlenecks(behind, task_rates(behind)).tolist() == [found]


def test_a_band_waits_until_it_is_left() -> None:
    banded = Ds2(factor=1.0, band=BusyBand())
    assert isinstance(banded.decide(measured(word_count(5, 6)), {})[0], NoChange), "67% and 69% busy"
    assert sizes(banded.decide(measured(word_count(3, 6)), {})[0]) == {1: 7, 2: 9}
    assert sizes(banded.decide(measured(word_count(20, 9)), {})[0]) == {1: 7}


@pytest.mark.parametrize("column", ["core_wait_ns", "output_wait_ns"])
def test_a_band_that_cannot_be_seen_is_said(column: str) -> None:
    snapshot = measured(word_count())
    hidden = replace(snapshot, instances=replace(snapshot.instances, **{column: None}))
    decision, _ = Ds2(band=BusyBand()).decide(hidden, {})
    assert isinstance(decision, NoChange) and decision.reason.startswith("not measured: figures of task")
    assert isinstance(Ds2().decide(hidden, {})[0], RescalePlan), "DS2's own manager does not read it"


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        propagate(np.zeros(2), np.zeros(2), np.array([0, 1]), np.array([1, 0]))


def test_nothing_comes_of_nothing() -> None:
    edges = np.array([0]), np.array([1])
    assert propagate(np.array([0.0, np.nan]), np.array([np.nan]), *edges).tolist() == [0.0, 0.0]
    assert np.isnan(propagate(np.array([1.0, np.nan]), np.array([np.nan]), *edges)[1])


def closed_loop(sigma: float, noise: float, seed: int, rounds: int = 24) -> tuple[int, bool]:
    """Return the steps in so many windows, and whether the last of them carried the target.

    p instances do the work of p / (1 + sigma (p - 1)); each one's rate is measured with an error of up to ``noise``.
    """
    rng = np.random.default_rng(seed)
    target, alone = 1000.0, float(rng.uniform(60, 400))
    policy, memory, p, steps = Ds2(), {}, 1, 0
    for turn in range(rounds):
        rate = alone / (1 + sigma * (p - 1))
        snapshot = measured(Job([Task("s", None), Task("t", rate, p)], [(0, 1, 1.0)], target), time_s=100.0 + 30 * turn)
        errors = np.concatenate([[1.0], rng.uniform(1 - noise, 1 + noise, p)])
        noisy = replace(snapshot, instances=replace(snapshot.instances, busy_ns=snapshot.instances.busy_ns * errors))
        decision, memory = policy.decide(noisy, memory)
        if isinstance(decision, RescalePlan):
            p, steps = decision.tasks[0].parallelism, steps + 1
    return steps, p * alone / (1 + sigma * (p - 1)) >= target


def test_one_step_where_scaling_is_linear() -> None:
    assert all(closed_loop(0.0, 0.0, seed) == (1, True) for seed in range(200))


@pytest.mark.parametrize("sigma", [0.0, 0.005, 0.01])
def test_three_steps_where_scaling_is_nearly_linear(sigma: float) -> None:
    steps = np.array([closed_loop(sigma, 0.1, seed)[0] for seed in range(100)])
    assert (steps <= 3).mean() >= 0.9, np.bincount(steps)


def test_more_steps_where_scaling_is_not_linear() -> None:
    """The negative control: the promise of three steps does not hold for every curve."""
    steps = np.array([closed_loop(0.04, 0.1, seed)[0] for seed in range(100)])
    assert (steps <= 3).mean() < 0.9
