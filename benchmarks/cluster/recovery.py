"""From ``kill -9`` of a task manager to the first checkpoint that is committed after it, checkpoints every second."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil

import penstock as ps
from penstock.benchmarks.cluster.settings import TWO
from penstock.benchmarks.latency.steady import SteadySource
from penstock.dsl.handle import Handle
from penstock.dsl.job import Job

PATIENCE_S = 120.0
_LOOK_S = 0.005


def measure(kills: int, seed: int = 0) -> dict[str, float]:
    """Return p50 and the slowest of so many kills in seconds, one after the other, of a job at 50,000 rows/s."""
    dice = np.random.default_rng(seed)
    taken: list[float] = []
    with TemporaryDirectory(prefix="penstock-") as folder:
        job = Job()
        rows = ps.read(SteadySource(25_000, 10_000, partitions=2), job=job).name("steady")
        counted = rows.key_by("key").agg(n=ps.count()).name("counted")
        counted.write_black_hole(mode="changelog").name("nowhere")
        handle = job.start(
            "recovery",
            directory=Path(folder) / "job",
            checkpoint_dir=Path(folder) / "checkpoints",
            checkpoint_interval="1s",
            **TWO.options(),
        )
        _await_commit(handle, 1)
        for _ in range(kills):
            time.sleep(dice.uniform(2.0, 4.0))
            living = task_managers()
            victim = living[dice.integers(len(living))]
            committed = _committed(handle)
            victim.kill()
            begun = time.perf_counter()
            _await_commit(handle, committed + 1)
            taken.append(time.perf_counter() - begun)
        handle.stop()
    taken.sort()
    return {"kills": kills, "p50_s": taken[len(taken) // 2], "slowest_s": taken[-1]}


def task_managers() -> list[psutil.Process]:
    """Return the processes of task managers that this process has started."""
    return [
        child for child in psutil.Process().children() if any("processes.child" in part for part in child.cmdline())
    ]


def _committed(handle: Handle) -> int:
    checkpoints = handle.metrics().checkpoints
    return 0 if checkpoints is None else checkpoints.committed


def _await_commit(handle: Handle, count: int) -> None:
    until = time.perf_counter() + PATIENCE_S
    while _committed(handle) < count:
        if time.perf_counter() > until or not handle.running:
            handle.wait(0)
            raise TimeoutError(f"no checkpoint was committed in {PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)
