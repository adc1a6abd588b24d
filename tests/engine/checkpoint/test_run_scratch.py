"""Folders of runs: none meets another's, and what a process that died has left goes."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.engine.checkpoint.run_scratch import RunScratch

CHILD = """
import signal, sys
from pathlib import Path
from penstock.engine.checkpoint.run_scratch import RunScratch
scratch = RunScratch(Path(sys.argv[1]))
scratch.claim()
(scratch.path / "state").mkdir()
print(scratch.path, flush=True)
signal.pause()
"""


def test_a_folder_stays_while_its_process_lives_and_goes_after_it_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "job")],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        other = Path(child.stdout.readline().strip())
        first, second = RunScratch(tmp_path / "job"), RunScratch(tmp_path / "job")
        first.claim()
        second.claim()
        assert (other / "state").is_dir() and first.path.is_dir() and first.path != second.path
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    third = RunScratch(tmp_path / "job")
    third.claim()
    assert sorted(tmp_path.glob("job/scratch/*")) == sorted([first.path, second.path, third.path])
    for scratch in (first, second, third):
        scratch.close()
        scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_missed_by_whoever_needs_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    scratch = RunScratch(tmp_path / "file")
    scratch.claim()
    scratch.close()
    assert not scratch.path.exists()


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = RunScratch(tmp_path), RunScratch(tmp_path)
    lock, sweeps = fcntl.flock, iter([second.claim])

    def swept(descriptor: int, operation: int) -> None:
        next(sweeps, lambda: None)()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", swept)
    first.claim()
    third = RunScratch(tmp_path)
    third.claim()
    assert sorted(tmp_path.glob("scratch/*")) == sorted([first.path, second.path, third.path])


def test_many_that_begin_and_end_at_once_each_have_a_folder(tmp_path: Path) -> None:
    together, lost = threading.Barrier(8, timeout=60), []

    def come_and_go() -> None:
        for _ in range(50):
            scratch = RunScratch(tmp_path / "job")
            together.wait()
            scratch.claim()
            together.wait()
            if not (scratch.path / "lock").exists():
                lost.append(scratch.path)
            scratch.close()

    threads = [threading.Thread(target=come_and_go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == [] and list(tmp_path.iterdir()) == []
