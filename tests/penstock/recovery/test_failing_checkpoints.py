"""Checkpoints that fail are told of, once for each cause, and too many in a row end the job with what to do."""

import errno
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import penstock as ps
from penstock.commands.run_start import RunOverrides
from penstock.dsl.job import Job
from penstock.engine.checkpoint import notices as checkpoint_news
from penstock.engine.checkpoint.notices import SLOW_NS, CheckpointNotices
from penstock.engine.checkpoint.states import CheckpointState
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.jobs import recovery as recovering
from penstock.model.errors import CheckpointError, OptionError, RetryableError, UserError
from penstock.model.sink_context import SinkContext
from penstock.runs.run_options import make_options
from penstock.state.files.durable_files import Content
from penstock.state.files.local_files import LocalFiles
from tests.engine.support import ManualClock
from tests.penstock.recovery.checkpoint_jobs import LONG_S, Endless, per_item, running


class FullDisk:
    """Once ``full`` is set, no file of a checkpoint can be written any more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = threading.Event()
        self.refused = 0
        write: Callable[[LocalFiles, str, Content], int] = LocalFiles.write

        def refusing(files: LocalFiles, path: str, content: Content) -> int:
            if self.full.is_set():
                self.refused += 1
                error = OSError(errno.ENOSPC, "No space left on device")
                raise RetryableError(f"cannot write {path!r}: No space left on device") from error
            return write(files, path, content)

        monkeypatch.setattr(LocalFiles, "write", refusing)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def test_a_disk_that_fills_up_ends_the_job_with_its_cause_and_what_to_do(
    tmp_path: Path, disk: FullDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, checkpoint_interval="20ms", max_failed_checkpoints=4) as handle:
        handle.savepoint("first", LONG_S)
        disk.full.set()
        with pytest.raises(CheckpointError) as raised:
            handle.wait(LONG_S)
    text = str(raised.value)
    assert "4 checkpoints in a row could not be completed" in text
    assert "No space left on device" in text and "max_failed_checkpoints" in text
    assert "then goes on at checkpoint " in text
    told = [line for line in capsys.readouterr().err.splitlines() if "GIVEN UP" in line]
    assert len(told) == 1 and "No space left on device" in told[0], told


def test_checkpoints_that_work_again_are_told_of_and_the_count_begins_anew(
    tmp_path: Path, disk: FullDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, checkpoint_interval="5ms", max_failed_checkpoints=1_000_000) as handle:
        for round_ in range(2):
            handle.savepoint(f"before-{round_}", LONG_S)
            disk.full.set()
            while not (found := handle.metrics().checkpoints) or found.aborted <= 2 * round_ + 1:
                assert handle.running
            disk.full.clear()
            handle.savepoint(f"after-{round_}", LONG_S)
    told = capsys.readouterr().err
    assert told.count("CHECKPOINT GIVEN UP") == 2
    assert told.count("CHECKPOINTS GO ON") == 2


def test_a_job_told_to_stop_ends_although_no_checkpoint_can_be_taken(tmp_path: Path, disk: FullDisk) -> None:
    source = Endless()
    options = {"checkpoint_dir": tmp_path / "checkpoints", "directory": tmp_path / "job"}
    handle = per_item(tmp_path, source).start("items", checkpoint_interval="1h", **options)
    assert source.read.wait(LONG_S)
    disk.full.set()
    began = monotonic()
    with pytest.raises(CheckpointError, match="3 checkpoints in a row could not be completed"):
        handle.stop()
    assert monotonic() - began < LONG_S


class Hanging(MemorySink):
    """Commits nothing before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs, self.let_go = threading.Event(), threading.Event()

    def with_checkpoints(self, context: SinkContext | None = None) -> "Hanging":
        return self

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        """There is nothing to take back."""

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        self.hangs.set()
        self.let_go.wait()


def test_a_job_told_to_stop_ends_although_a_sink_hangs_in_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_news, "STOP_COMMIT_NS", 50_000_000)
    monkeypatch.setattr(recovering, "CLOSE_S", 0.05)
    sink = Hanging()
    orders = ps.read(Endless(), time="at", job=Job()).name("orders")
    orders.write(sink).name("hanging")
    options = {"checkpoint_dir": tmp_path / "checkpoints", "directory": tmp_path / "job"}
    handle = orders.job.start("items", checkpoint_interval="10ms", **options)
    try:
        assert sink.hangs.wait(LONG_S)
        with pytest.raises(CheckpointError, match="its sinks have not committed checkpoint 1"):
            handle.stop()
    finally:
        sink.let_go.set()


def test_a_directory_that_cannot_be_used_is_refused_when_the_job_is_started(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(UserError, match="a file stands where a directory must be"):
        per_item(tmp_path).start("items", checkpoint_dir=tmp_path / "taken")


def test_a_stray_manifest_changes_nothing_and_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path):
        pass
    stray = tmp_path / "checkpoints/items/checkpoints/9999999999.json"
    stray.write_text("something else")
    for _ in range(2):
        capsys.readouterr()
        with running(tmp_path) as handle:
            pass
        told = capsys.readouterr().err
        assert told.count("STRAY FILE: 'checkpoints/9999999999.json'") == 1
        assert "RESTORED: 'items' goes on from checkpoint " in told and "SKIPPED" not in told
        checkpoints = handle.metrics().checkpoints
        assert checkpoints is not None and (checkpoints.aborted, checkpoints.failed_retentions) == (0, 0)
    assert stray.read_text() == "something else"


def test_the_command_line_sets_how_many_may_fail_and_how_long_a_start_may_take() -> None:
    options = make_options("job", {"checkpoint_dir": "x", "max_failed_checkpoints": 7, "start_timeout": "30s"})
    assert (options.checkpoints.max_failed, options.restarts.start_timeout_ms) == (7, 30_000)
    changed = RunOverrides(max_failed_checkpoints=3, start_timeout="1m").apply(options)
    assert (changed.checkpoints.max_failed, changed.restarts.start_timeout_ms) == (3, 60_000)
    kept = RunOverrides().apply(options)
    assert (kept.checkpoints, kept.restarts) == (options.checkpoints, options.restarts)
    with pytest.raises(OptionError, match="max_failed_checkpoints needs a checkpoint_dir"):
        make_options("job", {"max_failed_checkpoints": 7})


def test_a_stage_that_lasts_is_said_once_and_so_is_its_end() -> None:
    told: list[str] = []
    news = CheckpointNotices(ManualClock(), told.append)
    for second in range(100):
        news.look(CheckpointState.READY, 6, second * SLOW_NS)
    news.look(CheckpointState.COMMITTING, 7, 0)
    for part in range(1, 5):
        news.look(CheckpointState.COMMITTING, 7, part * SLOW_NS // 2)
    news.look(CheckpointState.READY, 7, 2 * SLOW_NS)
    news.look(CheckpointState.ALIGNING, 8, 2 * SLOW_NS)
    assert told == [
        "CHECKPOINT SLOW: number 7, for 30 s by now: the sinks commit",
        "CHECKPOINT GOES ON: number 7, after 60 s",
    ]
