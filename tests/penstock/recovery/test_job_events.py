"""Events of a job: what whoever watches it is told of its life, in order."""

from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dsl.job import Job, make_ready
from penstock.engine.core.job_events import (
    CheckpointCommitted,
    CheckpointFailed,
    JobEvent,
    Notice,
    Restarted,
    StateChanged,
)
from penstock.runs.run_options import RunOptions, make_options
from penstock.state.checkpoints.repository import CheckpointRepository
from tests.penstock.front_door import ORDERS, SCHEMA, Script, batch


def pipeline(folder: Path, *failures: Exception) -> Job:
    """Add `ORDERS` up; batches raise these errors, one each."""
    errors = dict(enumerate(failures))
    seen = count()

    def look(rows: pa.RecordBatch) -> None:
        error = errors.get(next(seen))
        if error is not None:
            raise error

    orders = ps.read(Script(SCHEMA, [batch(*ORDERS)]), time="at", job=Job()).name("orders")
    orders.for_each_batch(look).name("look")
    orders.key_by("item").agg(n=ps.count()).name("per item").write_json(folder / "out", mode="changelog").name("out")
    return orders.job


def options(folder: Path, **more: object) -> RunOptions:
    return make_options("items", {"directory": folder / "job", **more})


def states(events: list[JobEvent]) -> list[str]:
    return [event.after for event in events if isinstance(event, StateChanged)]


def test_a_job_that_restarts_tells_its_life(tmp_path: Path) -> None:
    events: list[JobEvent] = []
    chosen = options(tmp_path, checkpoint_dir=tmp_path / "checkpoints", restart_delay="1ms")
    job = make_ready(pipeline(tmp_path, ConnectionError("away")), chosen, events.append)
    assert job.status().state == "created" and job.status().attempt == 0
    job.run()
    assert states(events) == ["restoring", "running", "failing", "restarting", "restoring", "running", "finished"]
    failing = next(event for event in events if isinstance(event, StateChanged) and event.after == "failing")
    assert failing.error is not None and "ConnectionError: away" in failing.error
    (restarted,) = (event for event in events if isinstance(event, Restarted))
    assert (restarted.tasks, restarted.epoch) == ((), None) and "away" in restarted.error
    assert events.index(restarted) < events.index(CheckpointCommitted(1))
    assert any(isinstance(event, Notice) and event.text.startswith("RESTARTED: ") for event in events)
    status = job.status()
    assert (status.state, status.attempt, status.takes_checkpoints) == ("finished", 2, True)
    assert status.error is not None and "away" in status.error


def test_a_job_that_fails_for_good_says_so_last(tmp_path: Path) -> None:
    for more in ({}, {"checkpoint_dir": tmp_path / "checkpoints"}):
        events: list[JobEvent] = []
        job = make_ready(pipeline(tmp_path, ValueError("never")), options(tmp_path, **more), events.append)
        with pytest.raises(ValueError, match="never"):
            job.run()
        last = [event for event in events if isinstance(event, StateChanged)][-1]
        assert last.after == "failed" and last.error is not None and "never" in last.error
        assert job.status().state == "failed"


def test_a_job_without_checkpoints_runs_and_is_finished(tmp_path: Path) -> None:
    events: list[JobEvent] = []
    job = make_ready(pipeline(tmp_path), options(tmp_path), events.append)
    assert (job.status().state, job.status().takes_checkpoints) == ("created", False)
    job.run()
    assert states(events) == ["running", "finished"]
    assert job.places() == {}


def test_a_checkpoint_that_is_given_up_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish, tries = CheckpointRepository.publish, count()

    def fail_once(self: CheckpointRepository, manifest: object) -> object:
        if next(tries) == 0:
            raise OSError("disk full")
        return publish(self, manifest)  # type: ignore[arg-type]

    monkeypatch.setattr(CheckpointRepository, "publish", fail_once)
    events: list[JobEvent] = []
    chosen = options(tmp_path, checkpoint_dir=tmp_path / "checkpoints")
    make_ready(pipeline(tmp_path), chosen, events.append).run()
    (failed,) = (event for event in events if isinstance(event, CheckpointFailed))
    assert failed.epoch == 1 and "disk full" in failed.reason
    assert CheckpointCommitted(2) in events
