"""How long rows wait and are worked on is measured while a job runs, and grows where they wait."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.scheduler.action_log import EntryKind, read_log, snapshot_of
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_recommendations import dear


def latencies(log: Path, task: str) -> list[float]:
    """Return the latency of a task's instance in each snapshot so far in which rows came to it, ms."""
    if not log.exists():
        return []
    snapshots = [snapshot_of(log, entry) for entry in read_log(log) if entry.kind is EntryKind.SNAPSHOT]
    columns = [(seen.tasks.name.index(task), seen.instances) for seen in snapshots]
    found = [own.latency_ms[own.task == row] for row, own in columns if own.latency_ms is not None]
    return [float(each[0]) for each in found if not np.isnan(each).any()]


@pytest.mark.parametrize("executor", ["processes", "ray"])
def test_latency_grows_where_more_comes_than_is_taken(executor: Any, tmp_path: Path) -> None:
    job, log = ps.Job(), tmp_path / "actions.jsonl"
    rows = ps.read(SteadySource(3_000, keys=1), job=job).name("due").rebalance()
    rows.map_batches(dear).name("dear").write_black_hole().name("sink")
    # Who reads has a task manager of its own, so that rows wait between both.
    given: Any = {"executor": executor, "task_managers": 2, "parallelism": 1, "batch_rows": 50, "directory": tmp_path}
    handle = job.start("steady", action_log=log, **given)

    def grown() -> bool:
        found = latencies(log, "dear -> sink")
        return len(found) > 1 and found[-1] > 4 * found[0]

    # Two rows of three wait, for longer and longer.
    until(grown, handle)
    handle.stop()
    handle.wait()
    assert max(latencies(log, "due")) < max(latencies(log, "dear -> sink"))
