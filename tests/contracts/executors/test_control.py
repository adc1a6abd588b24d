"""A running job in the hands of whoever started it, on every executor: figures, savepoints, stops, drains, Ctrl-C."""

from pathlib import Path

import pytest

from penstock.engine.jobs.ledger import Ledger, check_ledger
from penstock.model.errors import BugError, OptionError
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, task_managers, until
from tests.contracts.executors.ways import CASES, EXECUTORS
from tests.long_cases import but_for

TASKS = ("numbers -> all -> rows", "per second -> windows", "per key -> totals")


def adds_up(ledger: Ledger) -> bool:
    try:
        check_ledger(ledger, ended=False)
    except BugError:
        return False
    return True


@pytest.mark.parametrize("executor", CASES)
def test_a_job_is_watched_kept_drained_and_begun_again_from_a_savepoint(tmp_path: Path, executor: str) -> None:
    options = {**EXECUTORS[executor], "parallelism": 2}
    job = MeteredJob(tmp_path)
    job.give(1_000)
    handle = job.start(**options)
    # Figures come from other processes about once a second.
    until(lambda: handle.metrics().source_rows == PARTITIONS * 1_000, handle)
    until(lambda: sum(line.folded for line in handle.metrics().ledger.operators) == 2 * PARTITIONS * 1_000, handle)
    # Of a job that runs they are read while an operator may be in the middle of a batch.
    until(lambda: adds_up(handle.metrics().ledger), handle)
    metrics = handle.metrics()
    assert {(item.task, item.instance) for item in metrics.instances} == {(task, i) for task in TASKS for i in (0, 1)}
    assert [(source.source, source.rows) for source in metrics.sources] == [("numbers", PARTITIONS * 1_000)]
    assert {state.operator: state.bytes > 0 for state in metrics.states} == {"per second": True, "per key": True}
    assert metrics.state_bytes > 0 and metrics.loop_age_ns is not None

    assert handle.savepoint("halfway", 60) == 1
    assert handle.metrics().checkpoints.committed == 1
    with pytest.raises(OptionError, match="halfway"):
        handle.savepoint("halfway", 60)
    job.give(2_000)
    until(lambda: handle.metrics().source_rows == PARTITIONS * 2_000, handle)
    drained = handle.stop(drain=True)
    check_ledger(drained.ledger, ended=True)
    assert not handle.running and task_managers() == []
    job.check(2_000)

    job.give(ROWS)
    again = job.start(restore="halfway", **options)
    metrics = again.wait()
    check_ledger(metrics.ledger, ended=True)
    assert metrics.source_rows == PARTITIONS * ROWS
    job.check()


@pytest.mark.parametrize(
    "executor", but_for(EXECUTORS, ["embedded"], "other processes; test_a_checkpoint_is_restored stops jobs on them")
)
def test_a_job_that_is_stopped_leaves_open_windows_to_the_next_run(tmp_path: Path, executor: str) -> None:
    options = {**EXECUTORS[executor], "parallelism": 2}
    job = MeteredJob(tmp_path)
    job.give(1_050)
    handle = job.start(savepoint_on_stop="friday", **options)
    until(lambda: handle.metrics().source_rows == PARTITIONS * 1_050, handle)
    handle.stop()
    job.check(1_050, closed=False)
    assert task_managers() == []
    job.give(ROWS)
    job.start(restore="friday", **options).wait()
    job.check()


@pytest.mark.parametrize("executor", CASES)
@pytest.mark.parametrize("drain", but_for([True, False], [True], "a stop; jobs with checkpoints are stopped above"))
def test_a_job_without_checkpoints_writes_what_it_has_read(tmp_path: Path, executor: str, drain: bool) -> None:
    job = MeteredJob(tmp_path)
    job.give(1_050)
    handle = job.start(checkpoint_dir=None, parallelism=2, **EXECUTORS[executor])
    until(lambda: handle.metrics().source_rows == PARTITIONS * 1_050, handle)
    metrics = handle.stop(drain=drain)
    check_ledger(metrics.ledger, ended=True)
    assert metrics.source_rows == PARTITIONS * 1_050
    job.check(1_050, closed=drain)
