"""The cost of readings in a task manager of 250 instances: CPU a second of what it says to its head of itself.

``python -m penstock.benchmarks.papers.reading_cost [INSTANCES ...]`` runs real instances in one process, sources that
give rows all the time and counts by key behind exchanges, and reads them between two steps of their loop, as a task
manager does once a second: the probe of the process, the counters of all instances, and the message that they make.
"""

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.job_control import TICK_NS
from penstock.engine.control.part_reading import PartReading, read_part
from penstock.engine.core.clock import SystemClock
from penstock.engine.dataflow.build import Build
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.executors.managers.host_probe import SystemProbe
from penstock.engine.executors.managers.messages import encode
from penstock.engine.executors.managers.part_readings import said
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph

SIZES = (250,)
PARALLELISM = 5
READINGS = 30
WARM = 5
"""Readings before those that count."""

_OPTIONS = LoopOptions(batch_rows=500, state_bytes=64 << 20)
_ROWS_PER_S = 20
_KEYS = 100


@dataclass(frozen=True, slots=True)
class ReadingCost:
    """Medians of readings: CPU of all, of the ``probe``, of the counters (``read``) and of the message; ``most_ms``.

    ``ms_per_s``: of a core, as one is made a second. ``counted``: instances that had taken rows.
    """

    instances: int
    counted: int
    ms_per_s: float
    probe_ms: float
    read_ms: float
    message_ms: float
    most_ms: float
    bytes: int


def plan(instances: int) -> ExecutionGraph:
    """Return a plan of as many queries as it takes: each a source, and a count by key behind an exchange."""
    job = ps.Job()
    for number in range(max(1, instances // (2 * PARALLELISM))):
        source = SteadySource(_ROWS_PER_S, keys=_KEYS, partitions=PARALLELISM)
        rows = ps.read(source, job=job).name(f"source {number}")
        counts = rows.key_by("key").agg(n=ps.count()).name(f"counts {number}")
        counts.write_black_hole(mode="changelog").name(f"query {number}")
    return job.plan(PARALLELISM)


class _Readings:
    """Reads instances now and then while their loop runs."""

    def __init__(self, build: Build) -> None:
        self._build, self._clock, self._probe = build, SystemClock(), SystemProbe()
        self._next_ns = self._clock.monotonic_ns()
        self.spent: list[tuple[int, int, int]] = []
        self.part: PartReading | None = None
        self.bytes = 0

    def look(self, readings: int, every_ns: int) -> bool:
        """Read if it is time; return whether there were enough."""
        if self._clock.monotonic_ns() >= self._next_ns:
            self._next_ns = self._clock.monotonic_ns() + every_ns
            self._read()
        return len(self.spent) == readings

    def _read(self) -> None:
        at = [time.thread_time_ns()]
        machine = self._probe.read()
        at.append(time.thread_time_ns())
        part = self.part = read_part(self._build, self._clock.monotonic_ns())
        at.append(time.thread_time_ns())
        self.bytes = len(encode(said(machine, part)))
        at.append(time.thread_time_ns())
        self.spent.append((at[1] - at[0], at[2] - at[1], at[3] - at[2]))


def measure(instances: int, readings: int = READINGS, every_ns: int = TICK_NS) -> ReadingCost:
    """Run about so many instances until they have been read so often, after some readings that do not count."""
    graph = plan(instances)
    with TemporaryDirectory(prefix="penstock-") as folder:
        job = EmbeddedJob(JobPlan("readings", graph, _OPTIONS, Path(folder)), clock=SystemClock())
        found = _Readings(job.build)
        gc.collect()
        struck = job.attempt.proceed(partial(found.look, WARM + readings, every_ns), None, None)
        assert struck is None and found.part is not None
        job.attempt.stop()
        job.attempt.proceed(lambda: False, None, None)
        job.attempt.finish()
    spent = np.array(found.spent[WARM:]) / 1e6
    probe, read, message = np.median(spent, axis=0).tolist()
    whole = spent.sum(axis=1)
    rows = found.part.instances
    return ReadingCost(
        len(rows),
        int((rows["records_in"] > 0).sum()),
        float(np.median(whole)) * 1e9 / TICK_NS,
        probe,
        read,
        message,
        float(whole.max()),
        found.bytes,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print one line a size."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.papers.reading_cost", description=__doc__)
    parser.add_argument("sizes", metavar="INSTANCES", nargs="*", type=int, help=f"default: {SIZES[0]}")
    print(f"{'instances':>10} {'ms a second':>12} {'probe ms':>9} {'read ms':>8} {'message ms':>11} {'most ms':>8}")
    for size in parser.parse_args(argv).sizes or SIZES:
        cost = measure(size)
        print(
            f"{cost.instances:>10,} {cost.ms_per_s:>12.1f} {cost.probe_ms:>9.2f} {cost.read_ms:>8.2f} "
            f"{cost.message_ms:>11.2f} {cost.most_ms:>8.1f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
