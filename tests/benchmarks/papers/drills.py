"""Drills of policies together on the simulated cluster: a job whose load, or machines, change in several ways."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Constant, Curve, Steps
from penstock.benchmarks.papers.cluster_model.parameters import Parameters, evaluation_parameters
from penstock.benchmarks.papers.cluster_model.spec import (
    ActionSpec,
    ApplicationSpec,
    ClusterSpec,
    EdgeSpec,
    MachineSpec,
    QuerySpec,
    ReportSpec,
    ServiceSpec,
    SourceSpec,
    StateSpec,
    TaskSpec,
)
from penstock.benchmarks.papers.cluster_model.steered import SteeredRun, View, steered
from penstock.model.columns import Floats
from tests.benchmarks.papers.drilled_policies import AS_IT_IS, PLACES, SIZES_ALL, Options, job_loop

BASE, HIGH, HIGHEST, LOW = 600.0, 1500.0, 2700.0, 300.0
"""Rows a second; an instance of the task that works takes 1,000."""

STEP_S, LOST_S, MINIMUM = 60.0, 12.0, 0.3
"""When loads change; when a machine is lost: its job still settles after its start."""
BACKLOG = 40_000.0
"""Rows that wait at a cold start."""
CALL_S, SLOW_CALL_S = 2e-4, 2e-3
"""What a call of the service takes, and where it is slow."""
SINE_S = 160.0
"""A period of the sine."""
PARTITIONS, MACHINES = 4, 8


@dataclass(frozen=True)
class Sine:
    """A rate that swings around its mean."""

    mean: float
    swing: float
    period_s: float

    def __call__(self, time_s: float) -> float:
        return self.mean + self.swing * float(np.sin(2 * np.pi * time_s / self.period_s))


@dataclass(frozen=True)
class Shape:
    """A load, how long it is looked at, and the instances of the task that works at first.

    ``of_all_s``: how long where somebody sizes the whole job, whose windows are longer. ``lost_s``: when the machine of
    the first instance is lost. ``slow_s``: from when to when the service is slow that it calls; empty: it calls none.
    ``waits``: rows that are there when the job starts. ``loop``: options of the loop.
    """

    rate: Curve
    until_s: float
    of_all_s: float
    at_first: int = 1
    lost_s: float = float("inf")
    slow_s: tuple[float, float] | tuple[()] = ()
    waits: float = 0.0
    loop: Mapping[str, Any] = field(default_factory=dict)


SHAPES: Mapping[str, Shape] = {
    "flat": Shape(Constant(BASE), 150.0, 240.0),
    "step up": Shape(Steps([(0.0, BASE), (STEP_S, HIGH)]), 180.0, 360.0),
    "step down": Shape(Steps([(0.0, HIGH), (STEP_S, LOW)]), 225.0, 450.0, at_first=2),
    "sine": Shape(Sine(900.0, 600.0, SINE_S), 2 * SINE_S, 2 * SINE_S),
    "slow service": Shape(Constant(BASE), 210.0, 300.0, slow_s=(STEP_S, 2 * STEP_S)),
    "machine lost": Shape(Constant(BASE), 120.0, 150.0, lost_s=LOST_S, loop={"cool_down_s": 30.0}),
    "cold start": Shape(Constant(BASE), 150.0, 300.0, waits=BACKLOG),
}
HIGH_STEP = Shape(Steps([(0.0, BASE), (STEP_S, HIGHEST)]), 165.0, 165.0)


def figures() -> Parameters:
    return evaluation_parameters("penstock.benchmarks.papers.flink_er", None)


def drilled_job(shape: Shape, *, is_one_task: bool = False, is_placed: bool = False, seed: int = 1) -> Cluster:
    """Return a source, a task that works, and a keyed sink with a minimum, on eight machines of a core each.

    ``is_one_task``: one task reads and works, and the application has an allocation, as Sage's have. ``is_placed``:
    somebody places instances that start.
    """
    make = figures().make
    tasks = _one_task(shape) if is_one_task else _three_tasks(shape)
    edges = [] if is_one_task else [("rows", "work", "free"), ("work", "counts", "hash")]
    actions: dict[str, Any] = {"scope": "task", "restores": "moved", "owners": "sticky"}
    actions |= {"accesses_per_bucket": 0.0, "is_resized_in_place": True, **({"places": "policy"} if is_placed else {})}
    shares = (1 / PARTITIONS,) * PARTITIONS
    last = tasks[-1].name
    spec = ClusterSpec(
        machines=[
            make(MachineSpec, "machine", name=f"tm{n}", leaves_s=shape.lost_s if n == 1 else float("inf"))
            for n in range(MACHINES)
        ],
        applications=[make(ApplicationSpec, "application", name="job", **(_allocation(shape) if is_one_task else {}))],
        tasks=tasks,
        sources=[make(SourceSpec, "source", task=tasks[0].name, rate=shape.rate, partition_shares=shares)],
        edges=[make(EdgeSpec, "edge", producer=one, consumer=two, exchange=how) for one, two, how in edges],
        services=[_service(shape.slow_s)] if shape.slow_s else [],
        queries=[QuerySpec(name=last, task=last, priority=1.0, minimum_accuracy=MINIMUM)],
        actions=make(ActionSpec, "actions", **actions),
        reports=make(ReportSpec, "reports"),
    )
    cluster = Cluster(spec, seed, 0.5, 2.0)
    for offsets in (cluster.log.end_offset, cluster.totals.end_offset):
        offsets += shape.waits * cluster.log.share
    return cluster


def _allocation(shape: Shape) -> dict[str, float]:
    """Return what fits the load at first: none of it is short, or ample; of a core that works off a backlog, most."""
    cores = 0.95 if shape.waits else (0.8, 1.95)[shape.at_first - 1]
    return {"cores": cores, "memory_bytes": 3.1e8, "heap_bytes": 1.2e8}


def _service(slow_s: tuple[float, float]) -> ServiceSpec:
    calls = Steps([(0.0, CALL_S), (slow_s[0], SLOW_CALL_S), (slow_s[1], CALL_S)])
    return figures().make(
        ServiceSpec, "service", name="geo", application="job", error_share=Constant(0.0), latency_s=calls
    )


def _work(shape: Shape) -> dict[str, Any]:
    """Return what makes a millisecond of a row, and where the task that works is."""
    row = {"service": "geo", "calls": 1.0, "cpu_s": 7e-4} if shape.slow_s else {"cpu_s": 1e-3}
    return {"application": "job", "parallelism": shape.at_first, "machines": ("tm1", "tm2")[: shape.at_first], **row}


def _one_task(shape: Shape) -> list[TaskSpec]:
    # Windows of who sizes whole jobs are a tenth as long as elsewhere, and so is the time in which it warms up.
    return [figures().make(TaskSpec, "task", name="rows", warm_up_s=1.0, **_work(shape))]


def _three_tasks(shape: Shape) -> list[TaskSpec]:
    make = figures().make
    # Where rows wait from before, their source is with what is full: elsewhere they would not count at all.
    source = "tm1" if shape.waits else "tm0"
    return [
        make(TaskSpec, "task", name="rows", application="job", parallelism=1, cpu_s=1e-5, machines=(source,)),
        make(TaskSpec, "task", name="work", **_work(shape)),
        make(
            TaskSpec, "task", name="counts", application="job", parallelism=1, cpu_s=5e-5, is_keyed=True,
            machines=("tm3",),
            state=make(StateSpec, "state", hit_s=1e-6, put_s=1e-6, miss_s=1e-6, most_keys=1e4),
            initial_managed_bytes=165_675_008.0,
        ),
    ]  # fmt: skip


@cache
def drilled(shape: str, *policies: str) -> SteeredRun:
    """Return a drill under these policies, which is run once."""
    return drill(SHAPES[shape], policies)


def drill(
    shape: Shape, policies: Sequence[str], options: Options = AS_IT_IS, views: Mapping[str, View] | None = None
) -> SteeredRun:
    """Run a drill under these policies, which act."""
    is_one_task, is_placed = bool({*policies} & {*SIZES_ALL}), bool({*policies} & {*PLACES})
    cluster = drilled_job(shape, is_one_task=is_one_task, is_placed=is_placed)
    until_s = shape.of_all_s if is_one_task else shape.until_s
    loop = job_loop(policies, replace(options, loop={**shape.loop, **options.loop}))
    return steered(cluster, loop, until_s, views)


def times(run: SteeredRun) -> Floats:
    return np.array(run.series.times_s)


def instances(run: SteeredRun) -> Floats:
    """Return the instances of the task that works, report by report."""
    return run.series.task("instances", "work" if "work" in run.series.tasks else "rows")


def cores(run: SteeredRun) -> Floats:
    """Return the cores that the job is given, report by report."""
    return run.series.table("cores")[:, 0]


def lag(run: SteeredRun) -> Floats:
    """Return the rows that wait in the log, report by report."""
    return run.series.task("lag", "rows")


def changes(run: SteeredRun) -> int:
    """Return how often the task that works got other instances."""
    return int(np.count_nonzero(np.diff(instances(run))))


def shed_share(run: SteeredRun, since_s: float = 0.0, until_s: float = float("inf")) -> float:
    """Return the share of the rows that were read in a time and that shedders dropped, of sources and of edges."""
    inside = (times(run) > since_s) & (times(run) <= until_s)
    read = run.series.task("fetched", "rows")[inside].sum()
    taken, dropped = run.series.task("processed", "rows")[inside].sum(), run.series.table("dropped")[inside].sum()
    return float(max(0.0, read - taken + dropped) / max(read, 1.0))
