"""Flink's autoscaler: its rules one by one, as tables, and what the policy remembers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import Decision, NoChange, RescalePlan
from penstock.model.snapshot import ApplicationColumns, ClusterSnapshot, PartitionColumns
from penstock.scheduler.autoscaler import Autoscaler, AutoscalerMemory
from penstock.scheduler.autoscaler_rules import (
    aligned_parallelism,
    capacity,
    is_ineffective,
    new_parallelism,
    scale_factor,
    scaling_coefficient,
    true_rate,
)
from penstock.scheduler.pacing import Pace
from tests.papers_cases import cases
from tests.scheduler.scaling_jobs import Job, Task, measured, random_job

SEEDS = st.integers(0, 2**32 - 1)
POLICY = Autoscaler(Pace(20.0, 10.0), restart_s=2.0, catch_up_s=60.0)


def one(*values: float) -> np.ndarray:
    return np.array(values)


def word_count(split: int, target: float = 1000.0, rate: float = 300.0, **given: int) -> Job:
    tasks = [Task("lines", None), Task("split", rate, split, **given)]  # type: ignore[arg-type]
    return Job(tasks, [(0, 1, 1.0)], target)


def seen(job: Job, time_s: float = 100.0, lag: float = 0.0) -> ClusterSnapshot:
    snapshot = measured(job, time_s, 20.0)
    partitions = PartitionColumns([0], [job.target * 20], [job.target * 20], [lag + 5.0], [5.0])
    return replace(snapshot, partitions=partitions)


def split_of(decision: Decision) -> int | None:
    sizes = decision.tasks if isinstance(decision, RescalePlan) else ()
    return next((size.parallelism for size in sizes if size.task == 1), None)


def test_true_rates_are_those_of_the_busiest_instance() -> None:
    assert true_rate(one(100, 100, 0), one(0.5, 1.0, 0.0)).tolist() == [200, 100, np.inf]


def test_capacity_adds_backlog_restart_and_what_may_idle() -> None:
    assert capacity(one(700.0), one(30.0), 0.7, 0.0, 60.0).tolist() == [1030]
    assert capacity(one(700.0), one(30.0), 0.7, 6.0, 60.0).tolist() == [1100]
    assert capacity(one(700.0, 0.0), one(0.0, 0.0), 0.0, 0.0, 60.0).tolist() == [np.inf, 0]


@pytest.mark.parametrize(
    ("parallelism", "target", "expected"),
    [(10, 50, 8), (10, 80, 12), (10, 100, 15), (10, 60, 9), (10, 10, 4), (1, 0, 1), (4, 2000, 200)],
)
def test_parallelism_from_target_and_true_rate(parallelism: int, target: float, expected: int) -> None:
    """An instance takes 10 rows a second; 70% busy at most, and never more than 60% fewer instances."""
    factor = scale_factor(one(target / 0.7), one(10.0 * parallelism), one(1.0), 0.6, 100_000)
    assert new_parallelism(factor, one(parallelism), 1, one(200)).tolist() == [expected]


@pytest.mark.parametrize(
    ("parallelism", "groups", "most", "expected"),
    [
        (48, 128, 200, 64),
        (100, 128, 200, 128),
        (5, 24, 200, 6),
        (7, 24, 200, 8),
        (9, 36, 200, 9),
        (5, 24, 5, 5),
        (11, 100, 200, 12),
    ],
)
def test_parallelism_is_aligned_to_key_groups(parallelism: int, groups: int, most: int, expected: int) -> None:
    assert aligned_parallelism(one(parallelism), one(groups), one(min(most, groups))).tolist() == [expected]


@settings(max_examples=cases())
@given(st.integers(1, 200), st.integers(1, 512), st.integers(1, 200))
def test_alignment_never_gives_fewer_nor_more_than_may_be(parallelism: int, groups: int, most: int) -> None:
    most = min(most, groups)
    parallelism = min(parallelism, most)
    found = int(aligned_parallelism(one(parallelism), one(groups), one(most))[0])
    assert parallelism <= found <= most
    assert found == parallelism or groups % found == 0 or groups // found < groups // parallelism


def test_the_scaling_coefficient() -> None:
    assert scaling_coefficient([(1, 100.0), (2, 200.0)]) == 1.0
    assert scaling_coefficient([(1, 100.0), (2, 200.0), (4, 400.0)]) == 1.0
    assert scaling_coefficient([(1, 100.0), (2, 180.0), (4, 320.0)]) == pytest.approx((100 + 360 + 1280) / (100 * 21))
    assert scaling_coefficient([(1, 100.0), (8, 110.0), (16, 120.0)]) == 0.5


@settings(max_examples=cases())
@given(SEEDS)
def test_within_bounds_and_a_second_look_changes_nothing(seed: int) -> None:
    job = random_job(seed)
    job = replace(job, target=min(job.target, 1000.0))
    decision, memory = POLICY.decide(seen(job), POLICY.start())
    sizes = {size.task: size.parallelism for size in getattr(decision, "tasks", ())}
    assert all(1 <= p <= 200 for p in sizes.values())
    assert isinstance(POLICY.decide(seen(job), memory)[0], NoChange)
    wanted = [sizes.get(task, one.parallelism) for task, one in enumerate(job.tasks)]
    after, _ = POLICY.decide(seen(job.sized(wanted), 200.0), memory)
    assert isinstance(after, NoChange), "every task is as busy as it should be, or waits to shrink"


def test_it_grows_at_once_and_keeps_30_percent_idle() -> None:
    decision, _ = POLICY.decide(seen(word_count(2)), POLICY.start())
    assert split_of(decision) == 5, "1000 / 300 / 0.7 and 33 a second for a restart"
    behind, _ = POLICY.decide(seen(word_count(2), lag=60_000), POLICY.start())
    assert split_of(behind) == 9, "another 1000 a second for a minute"


def test_inside_the_band_nothing_is_done() -> None:
    for split in (4, 5, 6, 7):
        assert isinstance(POLICY.decide(seen(word_count(split)), POLICY.start())[0], NoChange)


def test_fewer_instances_wait_for_an_hour_and_are_then_the_most_proposed() -> None:
    memory, found = POLICY.start(), []
    targets = {100.0: 1000.0, 1000.0: 5000.0, 3000.0: 1500.0, 3690.0: 1500.0, 3710.0: 600.0}
    for time_s, target in targets.items():
        decision, memory = POLICY.decide(seen(word_count(40, target), time_s), memory)
        found.append(split_of(decision))
    assert found == [None, None, None, None, 25], "what 5000 rows a second needed meanwhile"
    memory = POLICY.start()
    for time_s, target in {100.0: 1000.0, 2000.0: 8200.0, 3750.0: 1000.0}.items():
        decision, memory = POLICY.decide(seen(word_count(40, target), time_s), memory)
    assert split_of(decision) is None, "all were needed meanwhile, so that the wait began anew"


def test_what_was_seen_with_other_instances_holds_no_longer() -> None:
    """Somebody else gives the job fewer instances: what was the most that it needed is more than those."""
    memory = POLICY.start()
    for time_s, target in {100.0: 5000.0, 2000.0: 1500.0}.items():
        _, memory = POLICY.decide(seen(word_count(40, target), time_s, lag=50_000), memory)
    assert memory.histories["job", "lines"].catching_up and memory.histories["job", "split"].down_since_s == 100.0
    decision, memory = POLICY.decide(seen(word_count(20, 1500.0), 3750.0), memory)
    assert isinstance(decision, NoChange)
    assert memory.histories["job", "split"].down_since_s == 3750.0
    more = seen(replace(word_count(20, 1500.0), tasks=[Task("lines", None, 2), Task("split", 300.0, 20)]), 3850.0)
    _, memory = POLICY.decide(more, memory)
    assert memory.histories["job", "lines"].catching_up == ()
    policy = replace(POLICY, detects_ineffective=True)
    _, memory = policy.decide(seen(word_count(2)), policy.start())
    _, memory = policy.decide(seen(word_count(5, rate=121.0), 200.0), memory)
    decision, _ = policy.decide(seen(word_count(4, rate=121.0), 300.0), memory)
    assert split_of(decision) == 13, "what was expected was of five"


def test_with_a_long_backlog_nothing_shrinks() -> None:
    hasty = replace(POLICY, scale_down_wait_s=0.0)
    assert split_of(hasty.decide(seen(word_count(40)), POLICY.start())[0]) == 16
    behind = seen(word_count(40), lag=301 * 1000)
    assert isinstance(hasty.decide(behind, POLICY.start())[0], NoChange)


def test_a_scale_up_that_brought_nothing_is_not_repeated() -> None:
    assert is_ineffective(100.0, 200.0, 105.0, 0.1) and not is_ineffective(100.0, 200.0, 115.0, 0.1)
    for detects in (True, False):
        policy = replace(POLICY, detects_ineffective=detects)
        _, memory = policy.decide(seen(word_count(2)), policy.start())
        decision, _ = policy.decide(seen(word_count(5, rate=121.0), 200.0), memory)
        assert split_of(decision) == (None if detects else 13)


def test_what_scaling_brought_is_learnt() -> None:
    policy, memory = replace(POLICY, learns_scaling=True), AutoscalerMemory()
    p, target = 2, 1000.0
    for turn in range(4):
        decision, memory = policy.decide(
            seen(word_count(p, target, 300.0 / (1 + 0.02 * (p - 1))), 100.0 * (turn + 1)), memory
        )
        plain, _ = POLICY.decide(seen(word_count(p, target, 300.0 / (1 + 0.02 * (p - 1)))), POLICY.start())
        if turn == 3:
            assert (split_of(decision) or 0) > (split_of(plain) or 0)
        p, target = split_of(decision) or p, target * 2


def test_sources_that_caught_up_are_believed_more_than_their_busy_time() -> None:
    """They look idle, 1% busy, and yet read no faster than 1000 rows a second with 50 s of rows waiting."""
    memory = POLICY.start()
    for turn in range(2):
        decision, memory = POLICY.decide(seen(word_count(20), 100.0 * (turn + 1), lag=50_000), memory)
        assert isinstance(decision, NoChange)
    assert memory.histories["job", "lines"].catching_up == pytest.approx((1000.0, 1000.0))
    decision, _ = POLICY.decide(seen(word_count(20), 300.0, lag=50_000), memory)
    assert isinstance(decision, RescalePlan) and decision.numbers == {"job/lines true_rate": pytest.approx(1000.0)}


def test_while_garbage_is_collected_nothing_is_scaled() -> None:
    policy = replace(POLICY, gc_most=0.3)
    snapshot = seen(word_count(2))
    collecting = replace(snapshot, applications=ApplicationColumns(("job",), gc_ns=[0.31 * 20e9]))
    assert isinstance(policy.decide(collecting, policy.start())[0], NoChange)
    assert split_of(POLICY.decide(collecting, policy.start())[0]) == 5


def test_what_was_not_measured_is_said() -> None:
    snapshot = seen(word_count(2))
    hidden = replace(snapshot, instances=replace(snapshot.instances, busy_ns=None))
    decision, _ = POLICY.decide(hidden, POLICY.start())
    assert isinstance(decision, NoChange) and decision.reason.startswith("not measured")
    lagless = replace(snapshot, partitions=replace(snapshot.partitions, position=None))
    decision, _ = POLICY.decide(lagless, POLICY.start())
    assert isinstance(decision, NoChange) and decision.reason.startswith("not measured")
