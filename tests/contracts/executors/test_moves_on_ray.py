"""Key groups move between actors of Ray while rows flow: a head is killed behind a move, a task manager in one."""

from pathlib import Path

import pytest

from penstock.cluster.heads import find_head
from penstock.engine.core.failpoint_settings import VARIABLE
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.moves.move_orders import MoveOrder, MoveRecord
from penstock.model.errors import RetryableError, UserError
from penstock.runs.steered_job import SteeredJob
from penstock.runs.steering import await_move
from tests.contracts.executors.metered import LONG_S, PARTITIONS, ROWS, MeteredJob, until
from tests.contracts.executors.test_head_actor_acts import is_adopted, kill_head
from tests.contracts.executors.test_moves import read
from tests.contracts.executors.ways import RAY
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


def moved(job: SteeredJob, instance: str) -> MoveRecord:
    """Move what an instance has to the other task manager, and wait until it is there."""
    for manager in job.task_managers().live:
        try:
            return await_move(job, job.move(instance, manager))
        except UserError as error:
            if f"is at '{manager}' already" not in str(error):
                raise
    raise AssertionError("there is a single task manager")


def test_a_head_that_follows_knows_what_has_moved(tmp_path: Path, on_ray: RayCluster) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(executor="ray", task_managers=2, parallelism=2)
    read(job, handle, 1_000)
    head = find_head("metered")
    keyed = [f"{item.task}[{item.instance}]" for item in handle.metrics().instances if item.task.startswith("per ")]
    assert len(keyed) == 4
    given = [name for name in keyed if name.endswith("[1]")]
    for name in given:
        record = moved(head, name)
        assert record.moved_key_groups == record.key_groups > 0
        assert record.summary is not None and record.summary.state_bytes > 0
    kill_head(head)
    until(lambda: is_adopted(head), handle)
    read(job, handle, 2_000)
    for name in given:
        with pytest.raises(UserError, match="has no key groups: they have moved before"):
            moved(head, name)
    for name in keyed:
        if name not in given:
            assert moved(head, name).key_groups == 128
    job.give(ROWS)
    handle.wait()
    job.check()


def test_a_task_manager_that_is_killed_in_the_middle_of_a_move_takes_nothing_along(
    tmp_path: Path, on_ray: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "tm-0/move.state.given:3:kill")
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**RAY, parallelism=2, checkpoint_interval="50ms")
    read(job, handle, 1_000)
    running = handle._job
    assert isinstance(running, RecoveringJob)
    giver = next(name for name, place in running.places().items() if name.startswith("per key") and place == "tm-0")
    with pytest.raises(RetryableError, match="task manager 'tm-0' is lost"):
        running.moves.ask(MoveOrder(giver, "tm-1")).answer.result(LONG_S)
    (record,) = running.moves.records()
    assert 0 < record.moved_key_groups < record.key_groups
    read(job, handle, 2_000)
    until(lambda: len(on_ray.task_managers()) == 2, handle)
    metrics = handle.metrics().checkpoints
    assert metrics is not None and metrics.restarts == 1
    job.give(ROWS)
    handle.wait()
    job.check()
    assert job.table_rows() == PARTITIONS * ROWS
