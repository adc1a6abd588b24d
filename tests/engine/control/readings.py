"""Readings of task managers made by hand, and a plan that they are of."""

from collections.abc import Mapping, Sequence

import numpy as np

import penstock as ps
from penstock.engine.control.job_control import JobControl, JobPlaces
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.part_reading import (
    INSTANCE_COLUMNS,
    INSTANCES,
    PARTITIONS,
    RECEIVED,
    SENT,
    PartReading,
    no_rows,
)
from penstock.engine.control.start_control import RECOMMENDED
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph

SECOND_NS = 1_000_000_000
TICKS = RECOMMENDED.period_s
"""Load shedding decides on every so many-th."""
MANAGERS = ("tm-0", "tm-1")
OPTIONS = LoopOptions()


def graph(parallelism: int = 2) -> ExecutionGraph:
    """Return a plan of two tasks: a source, and a keyed count with its sink."""
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job)
    bids.key_by("channel").agg(bids=ps.count()).write_black_hole(mode="changelog")
    return job.plan(parallelism, apart=True)


def machine(
    time_s: float, cpu_s: float = 0.0, busy_s: Sequence[float] = (0.0, 0.0), host: str = "h", first: int = 0
) -> MachineReading:
    """Return what a process has read of itself and of its cores, by their order from the ``first``."""
    cores = tuple(range(first, first + len(busy_s)))
    busy_ns = tuple(int(seconds * 1e9) for seconds in busy_s)
    return MachineReading(int(time_s * 1e9), host, cores, int(cpu_s * 1e9), busy_ns, 1 << 20)


Log = tuple[float, float, float]
"""Of a partition: what was consumed, what is behind, what was appended."""


def part(
    time_s: float,
    rows: Mapping[tuple[int, int], Mapping[str, float]],
    logs: Mapping[tuple[int, int], Log] | None = None,
) -> PartReading:
    """Return what was read of instances, by the row of their task and number; figures that are not given are 0.

    ``logs`` are of the one partition that each reads.
    """
    own = [(*at, *(figures.get(name, 0.0) for name in INSTANCE_COLUMNS)) for at, figures in rows.items()]
    read = [(*instance, *log) for instance, log in (logs or {}).items()]
    return PartReading(
        int(time_s * 1e9),
        np.array(own, INSTANCES),
        no_rows(SENT),
        no_rows(RECEIVED),
        np.array(read, PARTITIONS),
        ("0",) * len(read),
    )


def ran(seconds: float, cpu_s: float, rows: float = 100.0) -> Mapping[str, float]:
    """Return the figures of an instance that has run for so long, and used so much of a core."""
    wait_ns = (seconds - cpu_s) * 1e9
    return {
        "is_running": 1,
        "busy_ns": cpu_s * 1e9,
        "input_wait_ns": wait_ns,
        "cpu_ns": cpu_s * 1e9,
        "records_in": rows,
    }


def hear_burner(control: JobControl, burns: float, time_s: float = 0.0) -> None:
    """Let task managers with a core of their own, which do nothing, be heard: something ``burns`` that of the first."""
    for second in (time_s, time_s + 1):
        for core, name in enumerate(MANAGERS):
            busy = 0.0 if core else burns * second
            control.hear(name, machine(second, 0.0, [busy], first=core), None, int(second * 1e9))


def job_places(places: Mapping[str, str] | None = None, managers: Sequence[str] = MANAGERS) -> JobPlaces:
    """Return task managers that were all heard just now."""
    return JobPlaces(managers, "caller", places or {}, dict.fromkeys(managers, 0.0))
