"""What a job has and uses as a whole: the figures that policies for whole applications read."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.engine.control.application_use import NO_STATE_BYTES, with_use
from penstock.engine.control.machine_load import MachineReading, MachineWindow
from penstock.engine.paging.options import PagingOptions, budgets_of
from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    InstanceColumns,
    MachineColumns,
    TaskColumns,
)
from penstock.scheduler.observations import application_metrics
from penstock.scheduler.shared_quota import OtherHolding

MB = float(1 << 20)
S = 1_000_000_000


def snapshot(*, stateful: bool = True, budget: float = 16 * MB) -> ClusterSnapshot:
    """Return a job of a source and a count with two instances in a window of 10 s."""
    return ClusterSnapshot(
        1,
        10.0,
        10.0,
        applications=ApplicationColumns(("shop",)),
        tasks=TaskColumns(
            ("source", "count"), np.zeros(2), np.array([True, False]), np.array([False, True]),
            np.array([False, stateful]), np.array([False, True]), np.array([128, 128]), np.zeros(2),
        ),
        machines=MachineColumns(("tm-0", "tm-1"), np.ones(2)),
        instances=InstanceColumns(
            np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([0, 0, 1]), np.ones(3, np.bool_),
            busy_ns=np.array([1.0, 3.0, 4.0]) * S, remote_wait_ns=np.array([0.0, 2.0, 0.0]) * S,
            core_wait_ns=np.array([9.0, 1.0, 0.0]) * S, input_wait_ns=np.zeros(3), output_wait_ns=np.zeros(3),
            cache_hits=np.array([np.nan, 90.0, 100.0]), cache_misses=np.array([np.nan, 10.0, 0.0]),
            get_ms=np.array([np.nan, 20.0, 0.0]), state_bytes=np.array([np.nan, 9 * MB, 3 * MB]),
            managed_bytes=np.array([0.0, budget, budget]),
        ),
    )  # fmt: skip


def window(cpu_s: float, throttled_s: float = 0.0, read: float = 0.0, kills: float = 0.0) -> MachineWindow:
    before = MachineReading(0, "h", (0,), 0, (0,), 1, 0, 0.0, 0.0)
    after = MachineReading(5 * S, "h", (0,), int(cpu_s * S), (0,), 1, int(throttled_s * S), read, kills)
    found = MachineWindow.between(before, after)
    assert found is not None
    return found


def test_a_job_has_what_its_task_managers_and_budgets_are() -> None:
    seen = with_use(snapshot(), [window(2.0, 0.5, 100.0), window(1.0)], 1.5, 2)
    metrics = application_metrics(seen)
    figures = {name: float(getattr(metrics, name)[0]) for name in ("cores", "threads", "memory", "heap")}
    assert figures == {"cores": 1.5, "threads": 2.0, "memory": 32 * MB, "heap": 32 * MB}
    # Processes said what they did in 5 s, of 10.
    assert metrics.cpu[0] == pytest.approx(0.6)
    assert metrics.throttled[0] == pytest.approx(0.05) and metrics.disk_io[0] == pytest.approx(20.0)
    # The fullest instance has 9 MB, and its budget is for pages, too; the loop that another instance has is no work.
    assert metrics.resident[0] == pytest.approx(2 * 12 * MB, rel=0.01)
    assert metrics.busy_threads[0] == pytest.approx(1.0)
    assert metrics.gc[0] == pytest.approx(0.2)


@pytest.mark.parametrize("state_mb", [0.5, 3.0, 9.0, 100.0, 300.0])
def test_the_budget_for_state_holds_it_and_hardly_more(state_mb: float) -> None:
    budget = int(budgets_of(np.array([state_mb * MB]))[0])
    held = PagingOptions(budget_bytes=budget).held_bytes
    assert held is not None and state_mb * MB <= held <= state_mb * MB + 4096


@pytest.mark.parametrize(("budget_mb", "is_full"), [(12.1, True), (14.5, True), (16.0, False)])
def test_a_budget_is_used_up_where_state_beside_it_is_looked_for(budget_mb: float, is_full: bool) -> None:
    seen = application_metrics(with_use(snapshot(budget=budget_mb * MB), [window(1.0)] * 2, 2.0, 2))
    assert (seen.resident[0] == seen.memory[0]) == is_full
    whole = snapshot(budget=budget_mb * MB)
    found = replace(whole, instances=replace(whole.instances, cache_misses=np.array([np.nan, 0.0, 0.0])))
    assert application_metrics(with_use(found, [window(1.0)] * 2, 2.0, 2)).resident[0] < seen.memory[0]


def test_a_job_without_state_lacks_no_memory_and_one_without_a_bound_has_no_figure() -> None:
    none = with_use(snapshot(stateful=False), [window(1.0)] * 2, 2.0, 2).applications
    assert none.memory_bytes is not None and none.resident_bytes is not None
    assert (none.memory_bytes[0], none.resident_bytes[0]) == (NO_STATE_BYTES, 0.0)
    unbounded = with_use(snapshot(budget=np.nan), [window(1.0)] * 2, 2.0, 2).applications
    assert unbounded.memory_bytes is not None and np.isnan(unbounded.memory_bytes[0])


def test_what_was_not_measured_everywhere_is_missing() -> None:
    seen = application_metrics(with_use(snapshot(), [window(1.0)], 2.0, 2))
    assert np.isnan(seen.cpu[0]) and np.isnan(seen.throttled[0]) and seen.kills[0] == 0.0


def test_of_others_only_what_they_have_is_known() -> None:
    seen = with_use(snapshot(), [window(1.0)] * 2, 2.0, 2, [OtherHolding("other", 3.0, 5 * MB)])
    assert seen.applications.name == ("shop", "other")
    metrics = application_metrics(seen)
    assert (metrics.cores[1], metrics.memory[1]) == (3.0, 5 * MB)
    assert all(np.isnan(getattr(metrics, name)[1]) for name in ("threads", "cpu", "resident", "heap", "throttled"))


def test_kills_are_those_of_a_host_and_not_of_each_process() -> None:
    seen = with_use(snapshot(), [window(1.0, kills=2.0), window(1.0, kills=2.0)], 2.0, 2)
    assert seen.applications.out_of_memory_kills is not None and seen.applications.out_of_memory_kills[0] == 2.0
    unknown = window(1.0)
    unknown = replace(unknown, after=replace(unknown.after, kills=float("nan")))
    other = with_use(snapshot(), [unknown] * 2, 2.0, 2).applications.out_of_memory_kills
    assert other is not None and np.isnan(other[0])
