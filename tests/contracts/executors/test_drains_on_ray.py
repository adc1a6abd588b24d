"""A job on Ray of single instances gets others, and a task manager of it is drained by name: neither stops anything."""

from pathlib import Path

import pytest

from penstock.cluster.heads import find_head
from penstock.dsl.handle import Handle
from penstock.runs.steering import drained, place_on
from tests.contracts.executors.metered import ROWS, MeteredJob, until
from tests.contracts.executors.test_head_actor_acts import kill_head
from tests.contracts.executors.test_moves import read
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


def restarts(handle: Handle) -> int:
    counted = handle.metrics().checkpoints
    assert counted is not None
    return counted.restarts


def test_nothing_begins_anew_until_a_head_is_lost(tmp_path: Path, on_ray: RayCluster) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(executor="ray", task_managers=2, parallelism=1)
    read(job, handle, 600)
    named = find_head("metered")
    for rows, operator, count in ((1_000, "per key", 2), (1_400, "numbers", 2), (1_800, "per key", 1)):
        assert handle.rescale(operator, count).live
        read(job, handle, rows)
    assert drained(named, "tm-0").live == ("tm-1",)
    read(job, handle, 2_200)
    assert restarts(handle) == 0
    assert any("DRAINED: tm-0, while the job ran" in line for line in named.report(0).lines)
    until(lambda: len(on_ray.task_managers()) == 1, handle)
    assert len(place_on(named, 2).live) == 2
    read(job, handle, 2_600)
    # The plan that runs has gaps in its numbers, and that of the job has none: the head that follows builds all anew.
    kill_head(named)
    job.give(ROWS)
    handle.wait()
    job.check()
