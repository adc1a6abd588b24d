"""A recorded run of a real embedded job, and what the simulated cluster predicts of it.

`recorded_run` made the recordings; what rows cost is taken from one load, and the others are predicted
(docs/design/simulated-cluster.md 10).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Constant
from penstock.benchmarks.papers.cluster_model.loop import run
from penstock.benchmarks.papers.cluster_model.parameters import Parameters, default_parameters
from penstock.benchmarks.papers.cluster_model.spec import (
    ActionSpec,
    ApplicationSpec,
    ClusterSpec,
    EdgeSpec,
    MachineSpec,
    ReportSpec,
    SourceSpec,
    TaskSpec,
)

RECORDINGS = Path(__file__).with_name("recordings")
TASKS = ("read", "map", "count")
BEGIN_S = 2.0
"""What came before is left out: kernels are compiled, inputs fill."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A load in its steady part: rows a second at the last task, part of the core by task, rows a second of lag."""

    throughput: float
    busy_share: tuple[float, ...]
    lag_slope: float


def read_recording(name: str = "embedded") -> Mapping[str, Any]:
    """Return a recording that is checked in."""
    found: Mapping[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return found


def loads_of(recording: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    """Return the runs of one load."""
    return [load for load in recording["loads"] if load["name"] == name]


def measured(runs: Sequence[Mapping[str, Any]]) -> Figures:
    """Return what was measured at a load: means over its runs."""
    rates, shares, slopes = [], [], []
    for steady in map(_steady, runs):
        first, last = steady[0], steady[-1]
        seconds = last["seconds"] - first["seconds"]
        rates.append((last["rows"][-1] - first["rows"][-1]) / seconds)
        shares.append((np.array(last["busy_ns"]) - np.array(first["busy_ns"])) / 1e9 / seconds)
        lag = [sample["lag_rows"] for sample in steady]
        slopes.append(np.polyfit([sample["seconds"] for sample in steady], lag, 1)[0])
    return Figures(float(np.mean(rates)), tuple(np.mean(shares, axis=0).tolist()), float(np.mean(slopes)))


def calibrated(runs: Sequence[Mapping[str, Any]]) -> Sequence[float]:
    """Return what a row cost each task at a load: busy time over rows, in seconds."""
    steady = [_steady(run) for run in runs]
    spent = sum(np.array(item[-1]["busy_ns"]) - np.array(item[0]["busy_ns"]) for item in steady)
    rows = sum(np.array(item[-1]["rows"]) - np.array(item[0]["rows"]) for item in steady)
    costs: Sequence[float] = (spent / 1e9 / rows).tolist()
    return costs


def _steady(run: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [sample for sample in run["samples"] if sample["seconds"] > BEGIN_S]


def predicted(recording: Mapping[str, Any], costs_s: Sequence[float], rate: float, seconds: float = 60.0) -> Figures:
    """Return what the simulated cluster makes of a rate, given what rows cost: one core, as the job has one thread."""
    spec = _spec(recording, costs_s, rate)
    cluster = Cluster(spec, 0, 0.05, 0.5)
    series = run(cluster, (), seconds).series
    late = slice(len(series.times_s) // 2, None)
    busy = tuple(float(series.task("busy_s", task)[late].mean()) / spec.reports.every_s for task in TASKS)
    lag = series.task("lag", "read")[late]
    slope = float(np.polyfit(series.times_s[late], lag, 1)[0])
    return Figures(float(series.task("processed", "count")[late].mean()) / spec.reports.every_s, busy, slope)


def _spec(recording: Mapping[str, Any], costs_s: Sequence[float], rate: float) -> ClusterSpec:
    parameters: Parameters = default_parameters().having(
        task__batch_cpu_s=0.0, task__fetch_cpu_s=0.0, task__warm_up_factor=0.0, reports__noise_share=0.0
    )
    batch = float(recording["batch_rows"])

    def task(number: int, is_keyed: bool) -> TaskSpec:
        return parameters.make(
            TaskSpec,
            "task",
            name=TASKS[number],
            application="recorded",
            parallelism=recording["instances"][number],
            cpu_s=costs_s[number],
            queue_rows=batch,
            is_keyed=is_keyed,
        )

    return ClusterSpec(
        machines=[parameters.make(MachineSpec, "machine", name="thread")],
        applications=[parameters.make(ApplicationSpec, "application", name="recorded", gc_s_per_byte=0.0)],
        tasks=[task(0, False), task(1, False), task(2, True)],
        sources=[SourceSpec(task="read", rate=Constant(rate), partition_shares=(1.0,), is_random=False)],
        edges=[
            parameters.make(EdgeSpec, "edge", producer="read", consumer="map"),
            parameters.make(EdgeSpec, "edge", producer="map", consumer="count", exchange="hash"),
        ],
        actions=parameters.make(ActionSpec, "actions"),
        reports=parameters.make(ReportSpec, "reports"),
    )
