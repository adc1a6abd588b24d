"""The runs of Sage on real parts: what each application lacks, grids of sizes, a slow service, and rivals."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.wanted import Times, in_smoke
from penstock.benchmarks.papers.sage.real_applications import HELD, ROWS, SERVICE, WORK
from penstock.benchmarks.papers.sage.rivals import ParallelismFirst

WINDOWS = 1 / 60
"""Minutes of the paper are seconds: windows of 5, 10 and 30 s."""

IDLE_BACKLOG_S = 3.0
"""A backlog of so many seconds of input is none: where windows are seconds, one late report would be one otherwise."""

NEVER = 60.0
"""Windows that are longer than a run: nothing is decided."""

SECONDS = {Scale.FULL: 100.0, Scale.SHORT: 75.0, Scale.SMOKE: 25.0}
ALL_TIMES = 2.4
"""The load of who lacks everything lasts so many times as long: it takes ten actions, each with its window and wait."""

GRID_S = 30.0

MEMORY, CPU, WORKERS, ALL = "memory", "cpu", "workers", "all"
LACKING = (MEMORY, CPU, WORKERS)
FIRST, SLOW, LOADED, UNGUARDED = "all-parallelism-first", "service-slow", "service-loaded", "service-slow-no-guard"

_IDLE_MS = 1_000
"""What the topic has first comes to one partition after the other, each of which is waited for so long."""

MB = 1 << 20
_ROWS_PER_S = {MEMORY: 250.0, CPU: 220.0, WORKERS: 650.0, ALL: 500.0}
_WORK: Mapping[str, Mapping[str, Any]] = {
    MEMORY: {"wait_s": 0.001, "held": 4_000},
    CPU: {"cpu_s": 0.0015},
    WORKERS: {"wait_s": 0.002},
    ALL: {"wait_s": 0.0015, "cpu_s": 0.0005, "held": 4_000},
}


@dataclass(frozen=True, slots=True)
class Size:
    """What an application begins with: bytes of the budget of an instance's state, cores, and task managers."""

    memory: int
    cores: float
    workers: int


STARTS = {
    MEMORY: Size(4 * MB, 2.0, 1),
    CPU: Size(8 * MB, 0.2, 1),
    WORKERS: Size(8 * MB, 2.0, 1),
    ALL: Size(4 * MB, 0.2, 1),
}
"""Where the lacking resource is too small by far."""

GRID: Mapping[str, tuple[float, ...]] = {
    MEMORY: (6.0, 8.0, 10.0, 11.5, 13.0),
    CPU: (0.35, 0.42, 0.5, 0.57, 0.65),
    WORKERS: (1.0, 2.0, 3.0),
}
"""Sizes of the lacking resource, megabytes, cores or task managers, that an optimum is looked for among."""


@dataclass(frozen=True, slots=True)
class First(ParallelismFirst):
    """The rival, on a job."""

    owns = ("cores and memory of applications", "parallelism")


def case(scale: Scale, lacking: str) -> RealCase:
    """Return the run of an application that lacks something, which Sage sizes."""
    size = STARTS[lacking]
    seconds = SECONDS[scale] * (ALL_TIMES if lacking == ALL else 1.0)
    return _case(lacking, size, lacking, seconds, {"scale": "sage", "parameters": _parameters(WINDOWS)})


def sized(lacking: str, value: float) -> RealCase:
    """Return a run of the same application that has so much of what it lacks, and keeps it."""
    start = STARTS[lacking]
    if lacking == MEMORY:
        size = replace(start, memory=int(value * MB))
    elif lacking == CPU:
        size = replace(start, cores=value)
    else:
        size = replace(start, workers=int(value))
    control = {"scale": "sage", "parameters": _parameters(NEVER)}
    return _case(f"{lacking}-at-{value:g}", size, lacking, GRID_S, control)


def rival(scale: Scale) -> RealCase:
    """Return the run of the application that lacks everything, sized by parallelism first."""
    name = f"{First.__module__}:{First.__qualname__}"
    parameters = {**_parameters(WINDOWS), "limits.least_memory_bytes": float(2 * MB)}
    return _case(FIRST, STARTS[ALL], ALL, SECONDS[scale] * ALL_TIMES, {"scale": name, "parameters": parameters})


def service(name: str, scale: Scale) -> RealCase:
    """Return a run in which a service is slow for 25 s, or in which more rows come."""
    seconds = SECONDS[scale]
    begins_s = 0.4 * seconds
    slow_s = 0.05 if name == LOADED else 0.25
    guard = {"guard": "none", "limits.slower": 1e9} if name == UNGUARDED else {}
    loads = ((1.0, begins_s), (2.0, seconds - begins_s)) if name == LOADED else ((1.0, seconds),)
    made = _case(
        name, Size(4 * MB, 2.0, 1), CPU, seconds, {"scale": "sage", "parameters": _parameters(WINDOWS) | guard}
    )
    # The service begins with the job, a few seconds before the first row.
    options = {"latency_s": 0.05, "slow_s": slow_s, "from_s": 10.0 + begins_s, "to_s": 35.0 + begins_s}
    return replace(made, application=SERVICE, options=options, loads=loads, capacity=50.0, first={})


def cases(scale: Scale, runs: int) -> Times:
    """Return what can be run, and how often each is."""
    few = max(1, runs // 5)
    every = [
        *((case(scale, lacking), runs) for lacking in LACKING),
        *((sized(lacking, value), 1) for lacking in LACKING for value in GRID[lacking]),
        (case(scale, ALL), few),
        (rival(scale), few),
        *((service(name, scale), few) for name in (SLOW, LOADED, UNGUARDED)),
    ]
    return in_smoke(every, (CPU,)) if scale is Scale.SMOKE else every


def _parameters(windows: float) -> dict[str, Any]:
    return {"windows": windows, "idle_backlog_s": IDLE_BACKLOG_S}


def _case(name: str, size: Size, work: str, seconds: float, control: Mapping[str, Any]) -> RealCase:
    return RealCase(
        name,
        WORK,
        ROWS,
        (0.25,) * 4,
        ((1.0, seconds),),
        control={"mode": "act", "cores": 4, "memory": 256 * MB, "first_cores": size.cores, **control},
        options=_WORK[work],
        executor="processes",
        task_managers=size.workers,
        batch_rows=32,
        start={
            "parallelism": size.workers, "channel_bytes": 32_768, "checkpoint_interval": "2m",
            "state_bytes": size.memory, "idle_timeout_ms": _IDLE_MS,
        },
        has_checkpoints=True,
        first=HELD if "held" in _WORK[work] else {},
        capacity=_ROWS_PER_S[work],
    )  # fmt: skip
