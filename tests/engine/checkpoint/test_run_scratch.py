"""Folders of runs: none meets another's, and what a process that died has left goes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

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
