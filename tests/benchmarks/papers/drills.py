"""Drills of policies together on the simulated cluster: a job whose load, or machines, change in several ways."""

from collections.abc import Mapping
from dataclasses import dataclass
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
from penstock.engine.control.steering import control_loop

BASE, HIGH, HIGHEST, LOW = 600.0, 1500.0, 2700.0, 300.0
"""Rows a second; an instance of the task that works takes 1,000."""

STEP_S, UNTIL_S, MINIMUM = 120.0, 420.0, 0.3
BACKLOG_S, USUAL_S, SLOW_S = 5.0, 2e-4, 2e-3
"""For so long a backlog comes at a cold start; what a call of the service takes, and where it is slow."""
PARAMETERS: dict[str, Mapping[str, Any]] = {
    "ds2": {},
    "ds2-fitted": {},
    "qod": {"warm_up.timeout_s": 0.0},
    "placement": {"start_timeout_s": 5.0},
    "autoscaler": {
        "pace.interval_s": 20.0, "pace.warm_up_s": 10.0, "restart_s": 2.0, "catch_up_s": 60.0,
        "scale_down_wait_s": 60.0,
    },
    "justin": {"ds2.pace.interval_s": 20.0, "ds2.pace.warm_up_s": 10.0, "ds2.factor": 0.3},
    "memory-choice": {"ds2.pace.interval_s": 20.0, "ds2.pace.warm_up_s": 10.0, "ds2.factor": 0.3},
    "flink-er": {},
    "sage": {"tick_s": 10.0, "stabilisation_s": 30.0},
    "sage-at-once": {"tick_s": 10.0, "stabilisation_s": 30.0},
}  # fmt: skip
"""Policies as the drills have them: scalers that wait for minutes wait for seconds, QoD and placement are a job's."""

SCALERS = ("ds2", "ds2-fitted", "autoscaler", "justin", "memory-choice", "flink-er", "sage", "sage-at-once")


@dataclass(frozen=True)
class Sine:
    """A rate that swings around its mean."""

    mean: float
    swing: float
    period_s: float

    def __call__(self, time_s: float) -> float:
        return self.mean + self.swing * float(np.sin(2 * np.pi * time_s / self.period_s))


SHAPES: Mapping[str, Curve] = {
    "flat": Constant(BASE),
    "step up": Steps([(0.0, BASE), (STEP_S, HIGH)]),
    "high step up": Steps([(0.0, BASE), (STEP_S, HIGHEST)]),
    "step down": Steps([(0.0, HIGH), (STEP_S, LOW)]),
    "sine": Sine(900.0, 600.0, 240.0),
    "machine lost": Constant(BASE),
    "slow service": Constant(BASE),
    "cold start": Steps([(0.0, 20 * BASE), (BACKLOG_S, BASE)]),
}


def figures() -> Parameters:
    return evaluation_parameters("penstock.benchmarks.papers.flink_er", None)


def drilled_job(shape: str, *, is_one_task: bool = False, seed: int = 1) -> Cluster:
    """Return a source, a task that works, and a keyed sink with a minimum, on eight machines of a core each.

    ``is_one_task``: one task reads and works, and the application has an allocation, as Sage's have.
    """
    make, is_lost = figures().make, shape == "machine lost"
    at_first = 2 if shape == "step down" else 1
    calls = {"service": "geo", "calls": 1.0, "cpu_s": 7e-4} if shape == "slow service" else {"cpu_s": 1e-3}
    tasks = _one_task(at_first, calls) if is_one_task else _three_tasks(at_first, calls)
    limits = {"cores": 2.0 * at_first, "memory_bytes": 4e9, "heap_bytes": 1e9} if is_one_task else {}
    first, last = tasks[0].name, tasks[-1].name
    edges = [("rows", "work", "free"), ("work", "counts", "hash")] if not is_one_task else []
    spec = ClusterSpec(
        machines=[
            make(MachineSpec, "machine", name=f"tm{n}", leaves_s=STEP_S if is_lost and n == 1 else float("inf"))
            for n in range(8)
        ],
        applications=[make(ApplicationSpec, "application", name="job", **limits)],
        tasks=tasks,
        sources=[make(SourceSpec, "source", task=first, rate=SHAPES[shape], partition_shares=(0.25,) * 4)],
        edges=[make(EdgeSpec, "edge", producer=one, consumer=two, exchange=how) for one, two, how in edges],
        services=[
            make(
                ServiceSpec,
                "service",
                name="geo",
                application="job",
                error_share=Constant(0.0),
                latency_s=Steps([(0.0, USUAL_S), (STEP_S, SLOW_S), (2 * STEP_S, USUAL_S)]),
            )
        ]
        if shape == "slow service"
        else [],
        queries=[QuerySpec(name=last, task=last, priority=1.0, minimum_accuracy=MINIMUM)],
        actions=make(ActionSpec, "actions", scope="task", restores="moved", owners="sticky", accesses_per_bucket=0.0),
        reports=make(ReportSpec, "reports"),
    )
    return Cluster(spec, seed, 0.5, 2.0)


def _one_task(parallelism: int, work: Mapping[str, Any]) -> list[TaskSpec]:
    make = figures().make
    return [
        make(
            TaskSpec, "task", name="rows", application="job", parallelism=parallelism, **work,
            machines=("tm1", "tm2")[:parallelism],
        )
    ]  # fmt: skip


def _three_tasks(parallelism: int, work: Mapping[str, Any]) -> list[TaskSpec]:
    make = figures().make
    return [
        make(TaskSpec, "task", name="rows", application="job", parallelism=1, cpu_s=1e-5, machines=("tm0",)),
        make(
            TaskSpec, "task", name="work", application="job", parallelism=parallelism, **work,
            machines=("tm1", "tm2")[:parallelism],
        ),
        make(
            TaskSpec, "task", name="counts", application="job", parallelism=1, cpu_s=5e-5, is_keyed=True,
            machines=("tm3",),
            state=make(StateSpec, "state", hit_s=1e-6, put_s=1e-6, miss_s=1e-6, most_keys=1e4),
            initial_managed_bytes=165_675_008.0,
        ),
    ]  # fmt: skip


def drill(
    shape: str, *policies: str, until_s: float = UNTIL_S, views: Mapping[str, View] | None = None, **options: Any
) -> SteeredRun:
    """Run a drill under these policies, which act."""
    parameters = {name: PARAMETERS.get(name, {}) for name in policies}
    loop = control_loop(parameters, acts=True, **{"cool_down_s": 30.0, **options})
    cluster = drilled_job(shape, is_one_task=any(name.startswith("sage") for name in policies))
    return steered(cluster, loop, until_s, views)


def shed_share(run: SteeredRun, since_s: float) -> float:
    """Return the share of the rows that came from a time on which was not processed."""
    times = np.array(run.series.times_s)
    appended = run.series.task("appended", "rows")[times > since_s].sum()
    processed = run.series.task("processed", "rows")[times > since_s].sum()
    return float(max(0.0, 1.0 - processed / appended))
