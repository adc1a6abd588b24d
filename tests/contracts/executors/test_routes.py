"""Shares of rows that may go to any instance, changed while a job runs: heeded, shown, and the results are the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock import col
from penstock.dsl.handle import Handle
from penstock.engine.jobs.metrics import RouteMetrics
from tests.contracts.executors.metered import PARTITIONS, ROWS, Metered, MeteredJob, task_managers, until
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.ways import PROCESSES

WAYS: tuple[Mapping[str, Any], ...] = ({"executor": "embedded"}, PROCESSES)


def start(job: MeteredJob, way: Mapping[str, Any]) -> Handle:
    """Start a job whose rows may go to any instance at first."""
    made = ps.Job()
    numbers = ps.read(Metered(job.folder / "meter"), time="at", job=made).name("numbers")
    job._write(numbers.rebalance().filter(col("id") >= 0).name("spread"))
    handle = made.start("routed", **job._options({**way, "parallelism": 2, "batch_rows": 50}))
    until(lambda: bool(handle.metrics().routes), handle)
    return handle


def route(handle: Handle) -> RouteMetrics:
    (found,) = handle.metrics().routes
    return found


def share_of_the_first(job: MeteredJob, handle: Handle, rows: int) -> float:
    """Let so many rows of each partition be read, and return which share of those before it the first instance got."""
    before = route(handle).rows
    job.give(rows)
    until(lambda: sum(route(handle).rows) == PARTITIONS * rows, handle)
    got = [after - earlier for after, earlier in zip(route(handle).rows, before, strict=True)]
    return got[0] / sum(got)


def change_shares(folder: Path, way: Mapping[str, Any]) -> None:
    """Change the shares of a job as it runs, and hold what instances get, and its output, against what they are to."""
    job = MeteredJob(folder)
    job.give(0)
    handle = start(job, way)
    assert share_of_the_first(job, handle, 500) == pytest.approx(0.5, abs=0.2)
    assert handle.route("spread", [3, 1]) == {"spread": (0.75, 0.25)}
    until(lambda: route(handle).shares == (0.75, 0.25), handle)
    assert share_of_the_first(job, handle, 1_500) == pytest.approx(0.75, abs=0.15)
    handle.route("all", [0, 1])
    until(lambda: route(handle).shares == (0.0, 1.0), handle)
    assert share_of_the_first(job, handle, 2_500) == 0
    with pytest.raises(ps.OptionError, match="nothing comes to 'per key' that may go to any"):
        handle.route("per key", [1, 1])
    handle.route("spread", [])
    until(lambda: route(handle).shares == (), handle)
    job.give(ROWS)
    handle.wait()
    job.check()
    with pytest.raises(ps.OptionError, match="job 'routed' is over"):
        handle.route("spread", [1, 1])


@pytest.mark.parametrize("way", WAYS, ids=("embedded", "processes"))
def test_instances_get_their_shares_and_results_are_the_same(tmp_path: Path, way: Mapping[str, Any]) -> None:
    change_shares(tmp_path, way)


def test_they_hold_when_a_task_manager_is_lost(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = start(job, PROCESSES)
    handle.route("spread", [1, 0])
    until(lambda: route(handle).shares == (1.0, 0.0), handle)
    job.give(1_000)
    until(lambda: sum(route(handle).rows) == PARTITIONS * 1_000, handle)
    kill(task_managers()[0].pid)
    until(lambda: (counted := handle.metrics().checkpoints) is not None and counted.restarts == 1, handle)
    job.give(ROWS)
    handle.wait()
    assert route(handle).shares == (1.0, 0.0) and route(handle).rows[1] == 0
    job.check()
