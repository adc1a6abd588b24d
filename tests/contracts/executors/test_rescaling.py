"""The parallelism of a running job changes, of sources, of what has state, and of sinks: each result is there once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.dsl.handle import Handle
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.plan.recut import instances_by_name
from penstock.model.errors import OptionError, UserError
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, until
from tests.contracts.executors.ways import PROCESSES

WAYS: tuple[Mapping[str, Any], ...] = ({"executor": "embedded"}, PROCESSES)


def running(handle: Handle) -> RecoveringJob:
    job = handle._job
    assert isinstance(job, RecoveringJob)
    return job


def read(job: MeteredJob, handle: Handle, rows: int) -> None:
    job.give(rows)
    until(lambda: handle.metrics().source_rows >= PARTITIONS * rows, handle)


@pytest.mark.parametrize("way", WAYS, ids=("embedded", "processes"))
def test_results_are_those_of_a_job_that_stays_as_it_is(tmp_path: Path, way: Mapping[str, Any]) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**way, parallelism=2)
    read(job, handle, 800)
    summary = handle.rescale("per second", 3)
    assert (summary.before["per second"], summary.after["per second"]) == (2, 3)
    assert 0 < summary.key_groups_moved < summary.key_groups
    read(job, handle, 1_600)
    assert handle.rescale("numbers", 4).after["numbers"] == 4
    read(job, handle, 2_400)
    # What was one chain is parted: the rows go through another task.
    assert handle.rescale("rows", 1).after == {"rows": 1}
    read(job, handle, 3_200)
    assert handle.rescale("per key", 1).before["per key"] == 2
    assert instances_by_name(running(handle).graph) == {
        "numbers": 4,
        "all": 4,
        "rows": 1,
        "per second": 3,
        "windows": 3,
        "per key": 1,
        "totals": 1,
    }
    until(lambda: running(handle).status().state == "running", handle)
    assert running(handle).status().error is None
    job.give(ROWS)
    metrics = handle.wait()
    job.check()
    # On task managers instances come to those that run, unless chains are parted, as by one of the four.
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == (1 if way is PROCESSES else 4)


def test_a_savepoint_of_it_begins_at_any_parallelism(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(executor="embedded", parallelism=1)
    read(job, handle, 1_000)
    handle.rescale("per second", 4)
    read(job, handle, 2_000)
    handle.savepoint("wide")
    handle.stop()
    handle.wait()
    handle = job.start(executor="embedded", parallelism=3, restore="wide")
    job.give(ROWS)
    handle.wait()
    job.check()


def test_what_cannot_be_is_refused_and_the_job_runs_on(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(executor="embedded", parallelism=2, key_groups=8)
    read(job, handle, 100)
    for operator, parallelism, sentence in (
        ("per hour", 3, "there is no operator 'per hour': the plan has 'all', 'numbers', 'per key', 'per second'"),
        ("per key", 0, "cannot have 0 instances: 1 is the least"),
        ("per key", 9, "cannot have 9 instances: the job has 8 key groups"),
        ("per key", 2, "nothing would change: 'per key' has 2 instances already"),
    ):
        for ask in (handle.rescale, handle.preview_rescale):
            with pytest.raises(OptionError, match=sentence):
                ask(operator, parallelism)
    shown = handle.preview_rescale("per key", 4)
    assert shown.before == {"per key": 2, "totals": 2} and shown.after == {"per key": 4, "totals": 4}
    assert shown.state_bytes > 0 and (shown.key_groups_moved, shown.key_groups) == (4, 16)
    counted = handle.metrics().checkpoints
    assert counted is not None and counted.restarts == 0
    handle.stop()
    handle.wait()
    with pytest.raises(UserError, match="is over"):
        handle.rescale("per key", 4)


def test_a_job_without_checkpoints_says_so(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(executor="embedded", checkpoint_dir=None)
    with pytest.raises(OptionError, match="a job without checkpoints cannot change its parallelism"):
        handle.rescale("per key", 2)
    handle.stop()
    handle.wait()
