"""How long a job on a Ray cluster takes: to its first row, to go on after a kill, and to hear that it is to stop."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from penstock.benchmarks.cluster.ray_cluster import RunningCluster, running_cluster
from penstock.benchmarks.cluster.ray_jobs import (
    PATIENCE_S,
    PROGRAM,
    SteadyJob,
    newest_checkpoint,
    options,
    steady_job,
    until,
)

ROWS_PER_S = 50_000
ACKNOWLEDGED = "STOPPING: the head of"
"""What a driver says whose order to stop the head actor has."""


def measure(kills: int, runs: int, seed: int = 0) -> Iterator[dict[str, float | str]]:
    """Yield a line for each time, in seconds: how often it was taken, the median, and the slowest.

    A task manager and a head actor are killed ``kills`` times each, one after the other; the others are of ``runs``.
    """
    dice = np.random.default_rng(seed)
    with running_cluster() as cluster:
        yield _line("submit to first row", [_submitted(cluster, f"submitted-{number}") for number in range(runs)])
        with steady_job(cluster, "killed", ROWS_PER_S) as job:
            yield _line("task manager killed to checkpoint", [_kill_manager(cluster, job, dice) for _ in range(kills)])
            yield _line("head actor killed to checkpoint", [_kill_head(cluster, job, dice) for _ in range(kills)])
        stops = [_stopped(cluster, f"stopped-{number}") for number in range(runs)]
        yield _line("SIGTERM to the driver to its acknowledgement", [acknowledged for acknowledged, _ in stops])
        yield _line("SIGTERM to the driver to the job's end", [ended for _, ended in stops])
        taken = [_stopped_by_ray(cluster, f"ended-{number}") for number in range(runs)]
        yield _line("ray job stop to its last checkpoint and end", taken)


def _submitted(cluster: RunningCluster, name: str) -> float:
    with TemporaryDirectory(prefix="penstock-") as path:
        taken, _ = _submit(cluster, Path(path), name)
        stop = [sys.executable, "-m", "penstock", "stop", name, f"--address={cluster.address}"]
        subprocess.run(stop, check=True, timeout=PATIENCE_S, capture_output=True)
        return taken


def _submit(cluster: RunningCluster, folder: Path, name: str) -> tuple[float, str]:
    """Submit the program; return the seconds until its first row has come, and Ray's name of the job."""
    begun = time.perf_counter()
    submit = [sys.executable, "-m", "penstock", "submit", f"--address={cluster.dashboard}", *options(folder, name)]
    with subprocess.Popen(
        [*submit, str(PROGRAM), "--", str(folder), str(ROWS_PER_S)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as command:
        until((folder / "first").exists, "a row")
        taken = time.perf_counter() - begun
        printed, _ = command.communicate(timeout=PATIENCE_S)
    return taken, printed.split()[-1]


def _stopped_by_ray(cluster: RunningCluster, name: str) -> float:
    """Return the seconds until a job has ended in order of which Ray was told that it is to stop."""
    with TemporaryDirectory(prefix="penstock-") as path:
        folder = Path(path)
        _, job = _submit(cluster, folder, name)
        until(lambda: newest_checkpoint(folder, name) > 1, "a checkpoint")
        newest = newest_checkpoint(folder, name)
        begun = time.perf_counter()
        stop = [str(Path(sys.executable).with_name("ray")), "job", "stop", job, f"--address={cluster.dashboard}"]
        subprocess.run([*stop, "--no-wait"], check=True, timeout=PATIENCE_S, capture_output=True)
        until(lambda: newest_checkpoint(folder, name) > newest, "the last checkpoint")
        until(lambda: not cluster.task_managers(), "the end of the job")
        return time.perf_counter() - begun


def _kill_manager(cluster: RunningCluster, job: SteadyJob, dice: np.random.Generator) -> float:
    until(lambda: len(cluster.task_managers()) == 2, "a task manager")
    time.sleep(dice.uniform(2.0, 4.0))
    living = cluster.task_managers()
    newest = job.checkpoint()
    living[dice.integers(len(living))].kill()
    return _until_checkpoint(job, newest)


def _kill_head(cluster: RunningCluster, job: SteadyJob, dice: np.random.Generator) -> float:
    until(lambda: len(cluster.head_actors()) == 1 and len(cluster.task_managers()) == 2, "a head actor")
    time.sleep(dice.uniform(2.0, 4.0))
    (head,) = cluster.head_actors()
    newest = job.checkpoint()
    head.kill()
    head.wait(PATIENCE_S)
    return _until_checkpoint(job, max(newest, job.checkpoint()))


def _until_checkpoint(job: SteadyJob, newest: int) -> float:
    begun = time.perf_counter()
    job.await_checkpoint(newest)
    return time.perf_counter() - begun


def _stopped(cluster: RunningCluster, name: str) -> tuple[float, float]:
    """Return the seconds from SIGTERM until the head actor has the order, and until the driver has ended."""
    with steady_job(cluster, name, ROWS_PER_S) as job:
        begun = time.perf_counter()
        job.driver.terminate()
        until(lambda: ACKNOWLEDGED in job.said.read_text(), "the acknowledgement of the order to stop")
        acknowledged = time.perf_counter() - begun
        job.driver.wait(PATIENCE_S)
        return acknowledged, time.perf_counter() - begun


def _line(what: str, taken: Sequence[float]) -> dict[str, float | str]:
    return {"what": what, "times": str(len(taken)), "p50_s": float(np.median(taken)), "slowest_s": max(taken)}
