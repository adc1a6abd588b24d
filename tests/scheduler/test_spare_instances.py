"""What Flink-ER gives back: one instance at a time, and never one that the same load brings back."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.control.steering import OF_A_JOB, steering
from penstock.model.plan import NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.flink_er import FlinkEr
from penstock.scheduler.spare_instances import fullness
from tests.papers_cases import cases
from tests.scheduler.flow_jobs import WINDOW_S, Stage, snapshot

FREES = FlinkEr(frees_below=0.5, frees_after_s=30.0, settle_s=10.0, looks=2)


def even(count: int, rate: float, buckets: int) -> Stage:
    """Return a keyed task of so many instances, whose buckets are dealt out one by one."""
    owned = [bucket % count for bucket in range(buckets)]
    shares = np.bincount(owned, minlength=count) / buckets
    loads = [(owner, 1 / buckets) for owner in owned]
    return Stage("count", [rate] * count, free=False, shares=shares.tolist(), buckets=loads)


def calm(state: ClusterSnapshot, latency_ms: float = 50.0) -> ClusterSnapshot:
    """Return a state in which nothing waits, or is slow."""
    parts, latency = state.partitions, np.full(len(state.instances), latency_ms)
    return replace(
        state,
        partitions=replace(parts, end_offset=parts.position),
        instances=replace(state.instances, latency_ms=latency),
    )


def sizes(policy: FlinkEr, states: Sequence[ClusterSnapshot]) -> list[tuple[float, tuple[TaskSize, ...]]]:
    """Return when what sizes were asked for."""
    memory, found = policy.start(), []
    for state in states:
        decision, memory = policy.decide(state, memory)
        if isinstance(decision, RescalePlan):
            found.append((state.time_s, decision.tasks))
    return found


def steady(offered: float, stages: Sequence[Stage], looks: int = 20) -> list[ClusterSnapshot]:
    return [calm(snapshot(offered, stages, number=number)) for number in range(1, 1 + looks)]


def test_an_instance_that_nobody_needs_goes_once_that_has_lasted() -> None:
    job = [Stage("source", [1e6]), even(4, 100.0, 128)]
    found = sizes(FREES, steady(100.0, job))
    # Nothing more within the time after it; the states are those of four instances still.
    assert found[0] == (5.0 + 30.0, (TaskSize(1, 3),)) and found[1][0] >= found[0][0] + 10.0
    decision, _ = FREES.decide(steady(100.0, job)[0], FREES.start())
    assert decision == NoChange("no source lags"), "not at the first look"
    assert sizes(FlinkEr(settle_s=10.0), steady(100.0, job)) == [], "the paper never does"


@pytest.mark.parametrize(
    ("offered", "goes"),
    # Two instances of 50 rows/s: at 54 one has 0.54 of its time, and a single one would have 1.08.
    [(54.0, False), (49.0, False), (40.0, False), (28.0, True), (5.0, True)],
)
def test_an_instance_stays_if_the_others_would_not_have_room(offered: float, goes: bool) -> None:
    job = [Stage("source", [1e6]), Stage("work", [50.0, 50.0])]
    states = steady(offered, job)
    assert bool(sizes(FREES, states)) is goes
    # Half a cut is not enough to go by: without room a single one would be full, and grow again.
    alone = np.array([np.inf, 50.0, 50.0])
    full = fullness(states[0], alone, np.array([offered, offered]), 1.0)[1]
    assert bool(full < 0.5) is (offered < 50)


def test_nothing_goes_while_a_source_lags_or_a_task_is_slow_or_figures_are_missing() -> None:
    job = [Stage("source", [1e6]), even(4, 100.0, 128)]
    states = steady(100.0, job)
    lagging = [replace(each, partitions=snapshot(100.0, job, lag=1e3).partitions) for each in states]
    slow = [calm(each, 900.0) for each in states]
    blind = [replace(each, instances=replace(each.instances, latency_ms=None)) for each in states]
    unknown = [replace(each, instances=replace(each.instances, core_wait_ns=None)) for each in states]
    for case in (lagging, slow, blind, unknown):
        assert sizes(FREES, case) == []
    # A moment of lag, and the time begins anew.
    assert sizes(FREES, [*states[:5], lagging[5], *states[6:12]]) == []


def test_the_emptiest_task_gives_first_and_what_forward_edges_join_gives_together() -> None:
    stages = [Stage("source", [1e6]), Stage("wide", [100.0] * 4), Stage("wider", [100.0] * 6)]
    states = steady(60.0, stages)
    assert sizes(FREES, states)[0][1] == (TaskSize(2, 5),)
    joined = [replace(each, edges=replace(each.edges, is_forward=np.array([False, True]))) for each in states]
    alike = [Stage("source", [1e6]), Stage("one", [100.0] * 4), Stage("other", [50.0] * 4)]
    pair = [replace(each, edges=joined[0].edges) for each in steady(60.0, alike)]
    assert sizes(FREES, pair)[0][1] == (TaskSize(1, 3), TaskSize(2, 3))
    full = [replace(each, edges=joined[0].edges) for each in steady(120.0, alike)]
    assert sizes(FREES, full) == [], "the second of them is needed"


def test_a_task_that_gives_an_instance_back_says_what_cores_are_needed() -> None:
    policy = steering("flink-er", {**OF_A_JOB["flink-er"], "frees_after_s": 5.0}).policy.policy
    job = [Stage("source", [1e6]), even(4, 100.0, 128)]
    memory, decision = policy.start(), None
    for state in steady(100.0, job):
        decision, memory = policy.decide(state, memory)
        if isinstance(decision, RescalePlan):
            break
    assert isinstance(decision, RescalePlan) and decision.reason.startswith(
        "job/count: 0.25 of what its instances carry"
    )
    # 1.25 of what comes are to be carried, and a tenth more; the source takes next to nothing.
    assert decision.cores[0].cores == pytest.approx(2.0) and not decision.cores[0].spreads


@settings(max_examples=cases(), deadline=None)
@given(
    st.floats(1.0, 2_000.0),
    st.floats(20.0, 500.0),
    st.integers(1, 12),
    st.booleans(),
    st.floats(0.0, 5.0),
    st.floats(1.0, 40.0),
)
def test_under_a_steady_load_it_comes_to_rest_and_what_went_never_comes_back(
    offered: float, rate: float, count: int, keyed: bool, pause_s: float, batch_ms: float
) -> None:
    """Each action stops the job for a while, whose lag is worked off then; a fuller instance is slower."""
    policy, lag, history = FREES, 0.0, [count]
    memory = policy.start()
    for number in range(1, 160):
        count = history[-1]
        stages = [Stage("source", [1e7]), even(count, rate, 128) if keyed else Stage("work", [rate] * count)]
        carried = rate * 128 / ceil(128 / count) if keyed else rate * count
        taken = min(carried, offered + lag / WINDOW_S)
        lag = max(0.0, lag + (offered - taken) * WINDOW_S)
        state = snapshot(offered, stages, lag=lag, consumed=taken, number=number)
        waits_ms = batch_ms / max(1e-3, 1 - min(0.9999, taken / carried))
        latency = np.full(len(state.instances), waits_ms)
        state = replace(state, instances=replace(state.instances, latency_ms=latency))
        decision, memory = policy.decide(state, memory)
        if isinstance(decision, RescalePlan) and decision.tasks:
            (size,) = decision.tasks
            assert size.task == 1
            history.append(size.parallelism)
            lag += offered * pause_s
    steps = np.diff(history)
    fewer = np.flatnonzero(steps < 0)
    assert not len(fewer) or (steps[fewer[0] :] == -1).all(), history
    at_rest = history[-1]
    assert at_rest * rate * 1.01 >= offered
