"""The least of what holds on all executors, on Ray: what is lost is replaced, checkpoints restored, errors named."""

import os
import signal
from pathlib import Path

import pytest

from penstock.engine.jobs.ledger import check_ledger
from penstock.model.errors import BadRecordError
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, until
from tests.contracts.executors.ways import RAY
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


@pytest.fixture
def job(tmp_path: Path) -> MeteredJob:
    return MeteredJob(tmp_path)


def kill_one(cluster: RayCluster) -> None:
    os.kill(cluster.task_managers()[0].pid, signal.SIGKILL)


def test_a_killed_task_manager_is_replaced_and_the_checkpoint_is_restored_elsewhere(
    job: MeteredJob, on_ray: RayCluster
) -> None:
    job.give(1_000)
    handle = job.start(parallelism=2, checkpoint_interval="100ms", **RAY)
    until(lambda: job.table_rows() >= PARTITIONS * 1_000, handle)
    assert len(on_ray.task_managers()) == 2
    kill_one(on_ray)
    job.give(2_000)
    until(lambda: job.table_rows() >= PARTITIONS * 2_000, handle)
    until(lambda: len(on_ray.task_managers()) == 2, handle)
    metrics = handle.stop()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1
    job.check(2_000, closed=False)
    until(lambda: on_ray.task_managers() == [])
    job.give(ROWS)
    check_ledger(job.run(parallelism=3).ledger, ended=True)
    job.check()


def test_an_error_of_the_user_ends_the_job_and_nothing_is_left(job: MeteredJob, on_ray: RayCluster) -> None:
    job.give(ROWS)
    handle = job.start(restarts=0, parallelism=2, bad_at=6_001, **RAY)
    with pytest.raises(BadRecordError, match="row 6001 is not to be had"):
        handle.wait()
    until(lambda: on_ray.task_managers() == [])


@pytest.mark.long("eight kills at any moment; one stands in test_a_killed_task_manager_is_replaced")
def test_task_managers_are_killed_again_and_again(job: MeteredJob, on_ray: RayCluster) -> None:
    job.give(0)
    handle = job.start(parallelism=3, checkpoint_interval="100ms", **RAY)
    for turn in range(1, 9):
        rows = ROWS * turn // 9
        job.give(rows)
        until(lambda rows=rows: job.table_rows() >= PARTITIONS * rows, handle)
        until(lambda: on_ray.task_managers() != [], handle)
        kill_one(on_ray)
    job.give(ROWS)
    metrics = handle.wait()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts >= 1
    job.check()
