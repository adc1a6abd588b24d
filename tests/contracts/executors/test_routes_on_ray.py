"""Shares of rows that may go to any instance, changed by the name of a job on Ray: heeded, and kept for later heads."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.cluster.heads import find_head
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, until
from tests.contracts.executors.test_head_actor_acts import is_adopted, kill_head
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.test_routes import change_shares, route, share_of_the_first, start
from tests.contracts.executors.ways import RAY
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


@pytest.mark.long("on Ray; test_routes.py has it on processes")
def test_instances_get_their_shares_and_results_are_the_same(tmp_path: Path, on_ray: RayCluster) -> None:
    change_shares(tmp_path, RAY)


@pytest.mark.long("a killed head and a killed task manager on Ray; test_routes.py has the latter on processes")
def test_they_hold_for_the_head_that_follows_and_when_a_task_manager_is_lost(
    tmp_path: Path, on_ray: RayCluster
) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = start(job, {"executor": "ray", "task_managers": 2})
    named = find_head("routed")
    assert named.route("spread", [3, 1]) == {"spread": (0.75, 0.25)}
    until(lambda: route(handle).shares == (0.75, 0.25), handle)
    assert share_of_the_first(job, handle, 500) == pytest.approx(0.75, abs=0.15)
    kill_head(named)
    until(lambda: is_adopted(named), handle)
    until(lambda: bool(handle.metrics().routes) and route(handle).shares == (0.75, 0.25), handle)
    assert share_of_the_first(job, handle, 1_500) == pytest.approx(0.75, abs=0.15)
    with pytest.raises(ps.OptionError, match="nothing comes to 'per key' that may go to any"):
        named.route("per key", [1, 1])
    assert named.route("spread", [0, 1]) == {"spread": (0.0, 1.0)}
    until(lambda: route(handle).shares == (0.0, 1.0), handle)
    assert share_of_the_first(job, handle, 2_500) == 0
    kill(on_ray.task_managers()[0].pid)
    until(lambda: (counted := handle.metrics().checkpoints) is not None and counted.restarts == 1, handle)
    job.give(3_000)
    until(lambda: handle.metrics().source_rows >= PARTITIONS * 3_000, handle)
    until(lambda: bool(handle.metrics().routes) and route(handle).shares == (0.0, 1.0), handle)
    job.give(ROWS)
    handle.wait()
    job.check()
