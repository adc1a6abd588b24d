"""What a loop has no time for: rests for cores that are used up cost its instances as much as if they worked."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.keeping_up import is_idle
from penstock.shedding.useful_time import with_useful_time
from tests.scheduler.scaling_jobs import Job, Task, measured


def job(rest_percent: float | None) -> ClusterSnapshot:
    """Return a job of which an instance is busy for 0.8 of its window, on a loop that rests so much."""
    seen = measured(Job([Task("rows", None), Task("work", 100.0)], [(0, 1, 1.0)], 80.0))
    busy_ns = np.where(seen.instances.task == 1, 0.8e9 * seen.window_s, 0.0)
    count = len(seen.machines)
    rests = None if rest_percent is None else np.full(count, rest_percent)
    machines = replace(seen.machines, cores=np.ones(count), cpu_percent=np.full(count, 10.0), rest_percent=rests)
    return with_useful_time(replace(seen, instances=replace(seen.instances, busy_ns=busy_ns), machines=machines))


@pytest.mark.parametrize(
    ("rest_percent", "loads", "idle"),
    [(None, 80.0, True), (0.0, 80.0, True), (20.0, 100.0, False), (float("nan"), 80.0, True), (-5.0, 80.0, True)],
)
def test_a_loop_that_rests_is_full_and_its_rows_cost_what_it_rests(
    rest_percent: float | None, loads: float, idle: bool
) -> None:
    seen = job(rest_percent)
    (works,) = np.flatnonzero(seen.instances.task == 1)
    assert seen.machines.cpu_percent is not None and seen.instances.cpu_ns is not None
    assert seen.machines.cpu_percent[seen.instances.machine[works]] == pytest.approx(loads)
    assert seen.instances.cpu_ns[works] == pytest.approx(loads / 100 * seen.window_s * 1e9)
    assert is_idle(seen) == idle
