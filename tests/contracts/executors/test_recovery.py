"""Failures and new lives on every executor: each row is in the output once, whatever happened to who worked on it."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.dsl.handle import Handle
from penstock.engine.jobs.ledger import check_ledger
from penstock.model.errors import BadRecordError, RetryableError
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, task_managers, until
from tests.contracts.executors.ways import CASES, EXECUTORS, PROCESSES, SMALL, TCP
from tests.long_cases import but_for

BAD_AT = 6_001


@pytest.fixture
def job(tmp_path: Path) -> MeteredJob:
    return MeteredJob(tmp_path)


Life = tuple[Mapping[str, Any], int]

LIVES: Mapping[str, list[Life]] = {
    "there and back": [({}, 2), (PROCESSES, 3), (PROCESSES, 1), ({}, 2)],
    "other transports": [(TCP, 2), (PROCESSES, 3), ({}, 1), (TCP, 4)],
}


@pytest.mark.parametrize("lives", but_for(LIVES, ["there and back"], "the same over TCP"))
def test_a_checkpoint_is_restored_by_any_executor_at_any_parallelism(job: MeteredJob, lives: str) -> None:
    last = len(LIVES[lives])
    for life, (options, parallelism) in enumerate(LIVES[lives], start=1):
        rows = ROWS * life // last
        job.give(rows)
        handle = job.start(parallelism=parallelism, **options, **SMALL)
        if life < last:
            read(handle, rows)
            handle.stop()
            job.check(rows, closed=False)
        else:
            handle.wait()
    job.check()


def kill(process_id: int) -> None:
    os.kill(process_id, signal.SIGKILL)


def read(handle: Handle, rows: int) -> None:
    until(lambda: handle.metrics().source_rows >= PARTITIONS * rows, handle)


def committed(job: MeteredJob, handle: Handle, rows: int) -> None:
    until(lambda: job.table_rows() >= PARTITIONS * rows, handle)


def test_task_managers_may_be_killed_one_or_both(job: MeteredJob) -> None:
    job.give(1_000)
    handle = job.start(parallelism=2, checkpoint_interval="100ms", **PROCESSES)
    committed(job, handle, 1_000)
    first = task_managers()
    assert len(first) == 2
    kill(first[0].pid)
    job.give(2_000)
    committed(job, handle, 2_000)
    until(lambda: len(task_managers()) == 2, handle)
    for process in task_managers():
        kill(process.pid)
    job.give(ROWS)
    metrics = handle.wait()
    job.check()
    check_ledger(metrics.ledger, ended=True)
    assert metrics.source_rows == PARTITIONS * ROWS
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts >= 2


def test_one_that_is_told_to_end_goes_behind_a_checkpoint_and_that_is_no_failure(job: MeteredJob) -> None:
    job.give(1_000)
    # No failure is borne, and no checkpoint is due.
    handle = job.start(parallelism=2, restarts=0, **PROCESSES)
    read(handle, 1_000)
    leaves = task_managers()[0]
    leaves.terminate()
    committed(job, handle, 1_000)
    until(lambda: not leaves.is_running() and len(task_managers()) == 2, handle)
    job.give(ROWS)
    metrics = handle.wait()
    job.check()
    assert metrics.source_rows == PARTITIONS * ROWS
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1


@pytest.mark.long("all are told at once; one is in the test above")
def test_all_may_be_told_to_end(job: MeteredJob) -> None:
    job.give(1_000)
    handle = job.start(parallelism=2, restarts=0, **PROCESSES)
    read(handle, 1_000)
    leave = task_managers()
    for process in leave:
        process.terminate()
    committed(job, handle, 1_000)
    until(lambda: len(task_managers()) == 2 and not any(process in task_managers() for process in leave), handle)
    job.give(ROWS)
    assert handle.wait().source_rows == PARTITIONS * ROWS
    job.check()


@pytest.mark.long("a dozen kills at any moment; two stand in test_task_managers_may_be_killed_one_or_both")
@pytest.mark.parametrize("options", [PROCESSES, {**TCP, **SMALL}], ids=["ring", "tcp, small"])
def test_task_managers_may_be_killed_at_any_moment(job: MeteredJob, options: Mapping[str, Any]) -> None:
    draw = np.random.default_rng(3)
    job.give(0)
    handle = job.start(parallelism=3, checkpoint_interval="50ms", **options)
    for turn in range(12):
        job.give(ROWS * (turn + 1) // 13)
        rows = int(draw.integers(ROWS * turn // 13, ROWS * (turn + 1) // 13))
        read(handle, rows)
        until(lambda: bool(task_managers()), handle)
        kill(draw.choice([process.pid for process in task_managers()]))
    job.give(ROWS)
    handle.wait()
    job.check()


@pytest.mark.parametrize("executor", CASES)
def test_a_failure_that_passes_begins_again_and_nothing_is_twice(job: MeteredJob, executor: str) -> None:
    job.give(ROWS // 2)
    options = {"parallelism": 2, "checkpoint_interval": "100ms", **EXECUTORS[executor]}
    handle = job.start(away_at=PARTITIONS * ROWS // 2, **options)
    committed(job, handle, ROWS // 2)
    job.give(ROWS)
    metrics = handle.wait()
    job.check()
    check_ledger(metrics.ledger, ended=True)
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1
    assert metrics.source_rows == PARTITIONS * ROWS


FAILURES: Mapping[str, tuple[Mapping[str, Any], type[Exception], str]] = {
    "away": ({"away_at": BAD_AT, "comes_back": False}, RetryableError, f"what takes row {BAD_AT} is away"),
    "for good": ({"bad_at": BAD_AT}, BadRecordError, f"row {BAD_AT} is not to be had"),
}


@pytest.mark.parametrize(
    ("executor", "failure"),
    but_for(
        [(executor, failure) for executor in EXECUTORS for failure in FAILURES],
        [("embedded", "away"), ("embedded", "for good"), ("processes", "away")],
        "the other failure; test_the_command_shows_the_users_line_and_error has one",
    ),
)
def test_a_failure_ends_the_job_with_the_users_error(job: MeteredJob, executor: str, failure: str) -> None:
    given, error, words = FAILURES[failure]
    job.give(ROWS)
    handle = job.start(restarts=0, parallelism=2, **given, **EXECUTORS[executor])
    with pytest.raises(error, match=words):
        handle.wait()
    assert job.table_rows() == 0 and task_managers() == []
