"""The steady program as a job on a Ray cluster: begun by its command, waited for, and ended."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.benchmarks.cluster.ray_cluster import RunningCluster
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.arrow_files import open_files

PATIENCE_S = 120.0
LOOK_S = 0.005
PROGRAM = Path(__file__).with_name("steady_program.py")


@dataclass(frozen=True, slots=True)
class SteadyJob:
    """A job of the steady program in a folder of its own; ``said`` is what its driver says."""

    name: str
    folder: Path
    driver: subprocess.Popen[bytes]
    said: Path

    def checkpoint(self) -> int:
        """Return the epoch of the newest checkpoint, 0: there is none."""
        return newest_checkpoint(self.folder, self.name)

    def await_checkpoint(self, after: int) -> None:
        """Wait for a newer one.

        Raises:
            TimeoutError: none is taken.
        """
        until(lambda: self.checkpoint() > after, "a checkpoint")


def newest_checkpoint(folder: Path, job: str) -> int:
    """Return the epoch of a job's newest checkpoint, 0: there is none."""
    return max(CheckpointRepository(open_files(str(folder / "checkpoints"), job)).epochs(), default=0)


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it does not.
    """
    until_s = time.perf_counter() + PATIENCE_S
    while not condition():
        if time.perf_counter() > until_s:
            raise TimeoutError(f"{what} did not come in {PATIENCE_S:.0f} s")
        time.sleep(LOOK_S)


def options(folder: Path, name: str) -> list[str]:
    """Return options of ``run`` and ``submit``."""
    checkpoints = [f"--checkpoint-dir={folder / 'checkpoints'}", "--checkpoint-interval=1s"]
    return [f"--name={name}", "--task-managers=2", *checkpoints]


@contextmanager
def steady_job(cluster: RunningCluster, name: str, rows_per_s: int) -> Iterator[SteadyJob]:
    """Yield a job that runs, and stop it in the end."""
    with TemporaryDirectory(prefix="penstock-") as path:
        folder = Path(path)
        command = [sys.executable, "-m", "penstock", "run", str(PROGRAM), "--executor=ray"]
        command += [f"--address={cluster.address}", *options(folder, name), "--", str(folder), str(rows_per_s)]
        said = folder / "said"
        with said.open("wb") as file, subprocess.Popen(command, stderr=file) as driver:
            try:
                job = SteadyJob(name, folder, driver, said)
                job.await_checkpoint(0)
                yield job
            finally:
                driver.terminate()
                driver.wait(PATIENCE_S)
