"""The least of what holds on all executors, on Ray: what is lost is replaced, checkpoints restored, errors named."""

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
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


@pytest.mark.long("tests/contracts/executors/test_recovery.py tells processes to end")
def test_one_that_is_told_to_end_goes_behind_a_checkpoint(job: MeteredJob, on_ray: RayCluster) -> None:
    job.give(1_000)
    handle = job.start(parallelism=2, restarts=0, **RAY)
    until(lambda: handle.metrics().source_rows >= PARTITIONS * 1_000, handle)
    leaves = on_ray.task_managers()[0]
    leaves.terminate()
    until(lambda: job.table_rows() >= PARTITIONS * 1_000, handle)
    until(lambda: leaves not in on_ray.task_managers() and len(on_ray.task_managers()) == 2, handle)
    job.give(ROWS)
    metrics = handle.wait()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1
    job.check()


def with_lens(row: dict[str, Any]) -> dict[str, Any]:
    """Return what Ray has given to the process that has this row."""
    import ray

    return {"lens": ray.get_runtime_context().get_assigned_resources().get("lens", 0.0), "process": os.getpid()}


def test_instances_are_where_what_they_need_is(tmp_path: Path, on_ray: RayCluster) -> None:
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=4_000), job=job).rebalance()
    seen = bids.map(with_lens, schema={"lens": float, "process": int}).parallelism(1).resources(custom={"lens": 1})
    seen.write_parquet(tmp_path / "out")
    job.run("lenses", directory=tmp_path, batch_rows=100, **RAY)
    rows = pa.concat_tables(pq.read_table(path) for path in (tmp_path / "out").glob("*.parquet")).to_pylist()
    assert {row["lens"] for row in rows} == {1.0} and len({row["process"] for row in rows}) == 1


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
