"""The work that comes: the least capacity for it, whatever a resource lacks, and with which heap."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.scheduler.observations import MetricHistory
from penstock.scheduler.rule_window import RuleWindow, least_capacity, rule_window
from penstock.scheduler.sizing_rule import RuleLimits
from penstock.scheduler.workload import cores_needed
from tests.papers_cases import cases
from tests.scheduler.sage_applications import GB, snapshot

LIMITS = RuleLimits(idle_backlog_s=10.0)


@settings(max_examples=cases())
@given(st.lists(st.integers(0, 10), min_size=1, max_size=40), st.integers(0, 100), st.integers(1, 60))
def test_the_least_capacity_holds_the_bound_and_nothing_less_does(work: list[int], allowed: int, dt: int) -> None:
    def most(capacity: float) -> float:
        waits, largest = 0.0, 0.0
        for value in work:
            waits = max(0.0, waits + (value - capacity) * dt)
            largest = max(largest, waits)
        return largest

    [least] = least_capacity(np.array([work], np.float64).T, dt, np.array([float(allowed)])).tolist()
    assert most(least) <= allowed + 1e-6
    if least > 1e-9:
        assert most(0.99 * least) > allowed


def test_a_peak_is_seen_in_the_samples_and_not_in_the_ticks() -> None:
    """Ten seconds in two minutes bring four times as many rows."""
    seen = looked([{"appended": 4000.0 if number == 7 else 1000.0} for number in range(12)])
    assert seen.ticks.appended.ravel().tolist() == [1000.0, 1500.0]
    assert seen.samples.appended.max() == 4000.0 and seen.sample_s == 10.0
    assert seen.last(60.0).samples.appended.ravel().tolist() == seen.samples.appended[6:].ravel().tolist()


def test_cores_that_are_short_hide_nothing_of_what_is_needed() -> None:
    """Rows take 4 ms; with two cores half of a thousand are done."""
    free = [{"appended": 1000.0, "consumed": 1000.0, "cpu": 4.0, "cores": 8.0}] * 60
    short = [{"appended": 1000.0, "consumed": 500.0, "cpu": 2.0, "cores": 2.0, "backlog": 5e3 * n} for n in range(60)]
    needed = [float(cores_needed(looked(uses), LIMITS, 0.12)[0]) for uses in (free, short)]
    assert needed[0] == pytest.approx(needed[1]) == pytest.approx(4 * 1.12)


def test_garbage_is_counted_for_the_heap_to_come() -> None:
    """One of four cores collects it with 3 GB free; with 1 GB free three would."""
    use = {"cpu": 4.0, "gc": 0.25, "heap": 4 * GB, "heap_used": 1 * GB}
    seen = looked([use] * 60)
    needed = [float(cores_needed(replace(seen, heap=np.array([h * GB])), LIMITS, 0.0)[0]) for h in (4.0, 2.0)]
    assert needed == [pytest.approx(4.0), pytest.approx(6.0)]


def looked(uses: list[dict[str, float]]) -> RuleWindow:
    history = MetricHistory.empty()
    for number, use in enumerate(uses):
        now = snapshot(number, {"a": use})
        now = replace(now, time_s=10.0 * number, window_s=10.0)
        for_ten = {"cpu_ns": now.applications.cpu_ns / 6, "gc_ns": now.applications.gc_ns / 6 * use.get("cpu", 1.0)}
        parts = replace(now.partitions, appended=now.partitions.appended / 6, consumed=now.partitions.consumed / 6)
        now = replace(now, applications=replace(now.applications, **for_ten), partitions=parts)
        history = history.with_snapshot(now, 3600.0)
    return rule_window(history, now, 1800.0, 60.0)
