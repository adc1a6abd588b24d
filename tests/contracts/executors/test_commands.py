"""Commands that Ctrl-C or a kill ends, on every executor: the job stops or is gone, and the next command goes on."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

import penstock as ps
from tests.contracts.executors.metered import LONG_S, PARTITIONS, ROWS, MeteredJob, until
from tests.contracts.executors.ways import EXECUTORS, PROCESSES
from tests.long_cases import but_for

ROOT = Path(ps.__file__).parents[1]

GONE_WITHIN_S = 5.0
"""How long task managers may outlive a command that was killed."""

COMMAND = """
    import sys
    from pathlib import Path
    from tests.contracts.executors.metered import MeteredJob
    MeteredJob(Path(sys.argv[1])).run(parallelism=2, checkpoint_interval="100ms", **{options})
"""


class Command:
    """A metered job run by a process of its own, in the foreground of a session of its own."""

    def __init__(self, job: MeteredJob, options: Mapping[str, Any]) -> None:
        text = "\n".join(line.strip() for line in COMMAND.strip().splitlines()).format(options=dict(options))
        self.process = subprocess.Popen(
            [sys.executable, "-c", text, str(job.folder)], cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE
        )
        self.seen: list[psutil.Process] = []

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *error: object) -> None:
        for process in [psutil.Process(self.process.pid), *self.seen] if self.process.poll() is None else self.seen:
            if process.is_running():
                process.kill()
        self.process.communicate(timeout=LONG_S)

    def until_committed(self, job: MeteredJob, rows: int) -> None:
        until(lambda: job.table_rows() >= PARTITIONS * rows or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()
        self.seen = psutil.Process(self.process.pid).children(recursive=True)


@pytest.mark.parametrize(
    # A command on Ray has other processes, too: see test_on_ray.py.
    "executor",
    but_for(
        [executor for executor in EXECUTORS if executor != "ray"],
        ["processes"],
        "one process alone; tests/end_to_end/test_chaos.py kills those",
    ),
)
def test_commands_are_stopped_by_ctrl_c_and_killed_and_the_next_one_goes_on(tmp_path: Path, executor: str) -> None:
    job, options = MeteredJob(tmp_path), EXECUTORS[executor]
    job.give(1_050)
    with Command(job, options) as command:
        command.until_committed(job, 1_050)
        assert len(command.seen) == (2 if options else 0)
        os.killpg(command.process.pid, signal.SIGINT)
        assert command.process.wait(LONG_S) == 0
        assert not [process for process in command.seen if process.is_running()]
    job.check(1_050, closed=False)
    kill_a_command(job, options, 2_000)
    finish(job)


@pytest.mark.long("ten kills; one stands in test_commands_are_stopped_by_ctrl_c_and_killed")
def test_a_command_is_killed_again_and_again(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    for kill in range(1, 11):
        kill_a_command(job, PROCESSES, ROWS * kill // 11)
    finish(job)


def kill_a_command(job: MeteredJob, options: Mapping[str, Any], rows: int) -> None:
    """Run one until it has committed so many rows of each partition, and kill it; nothing of it lives on."""
    job.give(rows)
    with Command(job, options) as command:
        command.until_committed(job, rows)
        command.process.kill()
        assert psutil.wait_procs(command.seen, GONE_WITHIN_S)[1] == []


def finish(job: MeteredJob) -> None:
    """Run it to its end in this process, which also sweeps what killed ones have left."""
    job.give(ROWS)
    job.run()
    job.check()
    assert not [path for path in (job.folder / "job").rglob("*") if path.is_file()]
