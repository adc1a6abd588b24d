"""Savepoints of a running job: taken on request and at a stop, waited for, and begun from."""

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

import penstock as ps
from penstock.commands.run_start import RunLauncher, RunOverrides
from penstock.engine.checkpoint.savepoint_requests import SavepointRequests
from penstock.runs.run_options import make_options
from tests.penstock.recovery.checkpoint_jobs import LONG_S, per_item, running


def test_a_savepoint_is_there_once_it_was_waited_for(tmp_path: Path) -> None:
    with running(tmp_path) as handle:
        epoch = handle.savepoint("first", LONG_S)
        assert ps.read_checkpoint(f"{tmp_path / 'checkpoints'}#first").epoch == epoch
        assert handle.running
        assert handle.savepoint("second", LONG_S) > epoch
        with pytest.raises(ps.OptionError, match="there is a savepoint 'first' already"):
            handle.savepoint("first", LONG_S)
        with pytest.raises(ps.OptionError, match="cannot be the name"):
            handle.savepoint("../first")
    with pytest.raises(ps.UserError, match="is over"):
        handle.savepoint("third", LONG_S)


def test_a_stopped_job_leaves_the_savepoint_it_was_told_to(tmp_path: Path) -> None:
    with running(tmp_path, savepoint_on_stop="last") as handle:
        handle.savepoint("first", LONG_S)
        metrics = handle.stop()
    last = ps.read_checkpoint(f"{tmp_path / 'checkpoints'}#last")
    assert metrics.checkpoints is not None and last.epoch == metrics.checkpoints.last_epoch
    with pytest.raises(ps.OptionError, match="there is a savepoint 'last' already"):
        per_item(tmp_path).start("items", checkpoint_dir=tmp_path / "checkpoints", savepoint_on_stop="last")
    with running(tmp_path, restore="last") as handle:
        handle.savepoint("again", LONG_S)
        assert handle.metrics().source_rows == 6


@pytest.mark.parametrize("drain", [False, True])
def test_a_stop_may_name_the_savepoint_it_leaves(tmp_path: Path, drain: bool) -> None:
    with running(tmp_path) as handle:
        handle.savepoint("first", LONG_S)
        with pytest.raises(ps.OptionError, match="there is a savepoint 'first' already"):
            handle.stop(savepoint="first")
        assert handle.running
        metrics = handle.stop(drain=drain, savepoint="last")
        with pytest.raises(ps.UserError, match="stops already"):
            handle.stop(savepoint="more")
    last = ps.read_checkpoint(f"{tmp_path / 'checkpoints'}#last")
    assert metrics.checkpoints is not None and last.epoch == metrics.checkpoints.last_epoch


def test_a_drained_job_leaves_the_savepoint_it_was_told_to(tmp_path: Path) -> None:
    with running(tmp_path, savepoint_on_stop="last") as handle:
        metrics = handle.stop(drain=True)
    last = ps.read_checkpoint(f"{tmp_path / 'checkpoints'}#last")
    assert metrics.checkpoints is not None and last.epoch == metrics.checkpoints.last_epoch


def test_without_checkpoints_there_are_no_savepoints(tmp_path: Path) -> None:
    handle = per_item(tmp_path).start("items", directory=tmp_path / "job")
    with pytest.raises(ps.OptionError, match="takes no checkpoints"):
        handle.savepoint("first")
    with pytest.raises(ps.OptionError, match="takes no checkpoints"):
        handle.stop(savepoint="last")
    handle.stop()
    with pytest.raises(ps.OptionError, match="needs a checkpoint_dir"):
        per_item(tmp_path).run("items", savepoint_on_stop="last")


def test_a_job_does_not_wait_for_itself(tmp_path: Path) -> None:
    errors: list[str] = []
    tried = threading.Event()

    def inside(batch: object) -> None:
        try:
            handles[0].savepoint("first")
        except ps.UserError as error:
            errors.append(str(error))
        tried.set()

    job = ps.Job()
    stream = ps.read_memory([{"n": 1}], job=job).name("numbers")
    begun = threading.Event()
    handles: list[ps.Handle] = []
    stream.for_each_batch(lambda batch: (begun.wait(LONG_S), inside(batch))).name("each")
    handles.append(job.start("numbers", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "job"))
    begun.set()
    assert tried.wait(LONG_S)
    handles[0].wait(LONG_S)
    assert "from another thread" in errors[0]


def waiting(requests: SavepointRequests, *names: str) -> list["Future[int]"]:
    return [requests.ask(name) for name in names]


def test_requests_are_answered_when_their_epoch_is_committed() -> None:
    requests = SavepointRequests()
    first, second = waiting(requests, "first", "second")
    assert (requests.take(), requests.take()) == (["first", "second"], [])
    with pytest.raises(ps.OptionError, match="being taken already"):
        requests.ask("first")
    requests.saved("first", 3)
    requests.committed(2)
    assert requests.is_saved("first") and not first.done()
    requests.committed(4)
    assert first.result(0) == 3 and not second.done()
    requests.failed("second", OSError("full"))
    with pytest.raises(OSError, match="full"):
        second.result(0)
    assert requests.unheard is None
    requests.failed("last", OSError("full"))
    assert str(requests.unheard) == "full"


def test_whoever_waits_at_the_end_is_told() -> None:
    requests = SavepointRequests()
    (first,) = waiting(requests, "first")
    requests.close(ps.UserError("over"))
    for asked in (first.result, lambda: requests.ask("second")):
        with pytest.raises(ps.UserError, match="over"):
            asked()


def test_the_command_keeps_a_savepoint_when_it_is_stopped(tmp_path: Path) -> None:
    runner = RunLauncher(RunOverrides(savepoint_on_stop="last"))
    options = make_options("items", {"checkpoint_dir": tmp_path / "checkpoints", "directory": tmp_path / "job"})
    handle = runner.start(per_item(tmp_path), options)
    handle.savepoint("first", LONG_S)
    handle.stop()
    runner.finish()
    assert ps.read_checkpoint(f"{tmp_path / 'checkpoints'}#last").savepoint == "last"
