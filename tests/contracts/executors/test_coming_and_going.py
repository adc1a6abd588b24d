"""Task managers come and go while a job runs, as its user asks: each result is there once."""

from pathlib import Path

import pytest

from penstock.dsl.handle import Handle
from penstock.model.errors import OptionError
from tests.contracts.executors.metered import ROWS, MeteredJob, task_managers, until
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.test_rescaling import read, running
from tests.contracts.executors.ways import PROCESSES


def test_one_comes_and_another_goes(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**{**PROCESSES, "task_managers": 1}, parallelism=2)
    steered = running(handle)
    read(job, handle, 800)
    with pytest.raises(OptionError, match="'tm-0' is the only task manager: add another first"):
        handle.drain("tm-0")
    with pytest.raises(OptionError, match="0 task managers cannot run a job"):
        handle.scale(0)
    steered.managers.resize(2)
    until(lambda: handle.task_managers().live == ("tm-0", "tm-1"), handle)
    assert set(handle.places().values()) == {"tm-0"}, "what runs stays where it is"
    spread = steered.rescale({})
    # What has state gets an instance there, and nothing begins anew.
    assert spread.after == {"per second": 3, "windows": 3, "per key": 3, "totals": 3} and spread.live
    assert 0.4 < spread.key_groups_moved / spread.key_groups < 0.6
    assert set(handle.places().values()) == {"tm-0", "tm-1"}
    read(job, handle, 1_600)
    with pytest.raises(OptionError, match="there is no task manager 'tm-7': there are tm-0, tm-1"):
        handle.drain("tm-7")
    assert handle.drain("tm-0").live == ("tm-1",)
    until(lambda: len(task_managers()) == 1 and set(handle.places().values()) == {"tm-1"}, handle)
    read(job, handle, 2_400)
    assert handle.task_managers().wanted == 1
    # What each of them was made of is told as other moves are.
    moves = handle.moves()
    assert [move.cause for move in moves] == ["scale"] * 2 + ["drain"] * 2
    assert {move.state for move in moves} == {"done"}
    assert sum(move.key_groups for move in moves[:2]) == spread.key_groups_moved
    assert (totals := handle.metrics().moves) is not None and totals.done == 4
    assert steered.status().error is None, "what it had was taken over while the job ran"
    job.give(ROWS)
    metrics = handle.wait()
    job.check()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 0
    with pytest.raises(OptionError, match="its task managers have gone"):
        handle.scale(2)


def test_numbers_may_have_gaps_in_what_runs_and_in_what_is_restored(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    # Between two readings processes start, and none of the partitions is to count as idle for that.
    handle = job.start(**{**PROCESSES, "task_managers": 3}, parallelism=3, idle_timeout_ms=600_000)
    read(job, handle, 600)
    until(lambda: len(handle.task_managers().live) == 3, handle)
    drain(handle, "tm-1")
    assert {int(name[-2]) for name in handle.places()} == {0, 2, 3}
    read(job, handle, 1_200)
    assert handle.rescale("per key", 4).live and handle.rescale("per second", 2).live
    assert {int(name[-2]) for name in handle.places() if name.startswith("per key")} == {0, 2, 3, 4}
    read(job, handle, 1_800)
    drain(handle, "tm-0")
    assert set(handle.places().values()) == {"tm-2"}
    assert (counted := handle.metrics().checkpoints) is not None and counted.restarts == 0
    kill(task_managers()[0].pid)
    until(lambda: (counted := handle.metrics().checkpoints) is not None and counted.restarts == 1, handle)
    until(lambda: len(handle.places()) > 0, handle)
    assert {int(name[-2]) for name in handle.places() if name.startswith("per key")} == {0, 1, 2, 3}
    assert len(handle.scale(2).live) == 2
    read(job, handle, 2_400)
    drain(handle, sorted(set(handle.places().values()))[0])
    handle.savepoint("gaps")
    handle.stop()
    handle.wait()
    handle = job.start(executor="embedded", parallelism=2, restore="gaps", idle_timeout_ms=600_000)
    job.give(ROWS)
    handle.wait()
    job.check()


def drain(handle: Handle, manager: str) -> None:
    """Let a task manager go, and wait until it has gone."""
    before = len(task_managers())
    handle.drain(manager)
    until(lambda: len(task_managers()) < before, handle)


@pytest.mark.long("three task managers; test_one_comes_and_another_goes has two")
def test_those_that_came_last_go_first(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**{**PROCESSES, "task_managers": 3}, parallelism=3)
    read(job, handle, 1_000)
    until(lambda: len(handle.task_managers().live) == 3, handle)
    handle.scale(1)
    until(lambda: len(task_managers()) == 1 and set(handle.places().values()) == {"tm-0"}, handle)
    job.give(ROWS)
    handle.wait()
    job.check()


def test_a_job_in_one_process_has_none(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(ROWS)
    handle = job.start(executor="embedded")
    with pytest.raises(OptionError, match="the job has no task managers"):
        handle.scale(2)
    handle.wait()
