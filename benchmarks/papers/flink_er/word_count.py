"""WordCount on the simulated cluster: lines are split into words, which are counted by key (Flink-ER, 4.1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Constant, Steps
from penstock.benchmarks.papers.cluster_model.loop import Run, Scheduled, run
from penstock.benchmarks.papers.cluster_model.parameters import Parameters, evaluation_parameters
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
from penstock.model.plan import RescalePlan
from penstock.model.policy import Policy

STEP_S, STEP_MOST_S = 0.5, 2.0
WARM_S = 60.0
"""When policies begin: instances that have just started are slow, which is no bottleneck."""


@dataclass(frozen=True, slots=True)
class WordCountCase:
    """A case of WordCount: which task is the narrow one, whether load rises, whether one machine has foreign load.

    ``zipf``: exponent of how unequally often key groups come, 0 for all alike.
    """

    narrow: str
    rises: bool = True
    foreign: bool = False
    is_spare: bool = False
    """Whether all tasks have capacity for the load after the step."""
    zipf: float = 0.0


def parameters(seed: int | None) -> Parameters:
    """Return the figures, those that no paper gives drawn anew (None: as they stand)."""
    return evaluation_parameters(__package__, seed)


def word_count(figures: Parameters, case: WordCountCase) -> ClusterSpec:
    """Return the cluster: two instances each of split and count, a machine for every instance."""

    def figure(name: str) -> float:
        return float(figures.value("word_count", name))

    lines, words = figure("lines_per_s"), figure("words_per_line")
    count = int(figure("machines")) + int(figure("standby"))
    wide = figure("step_factor") * max(figure("wide") / 2, 1.5)
    # Narrow enough for the load after the step not to fit, and wide enough for the load before.
    tight = min(max(figure("narrow"), 1.3), 0.85 * figure("step_factor"))

    def task(name: str, rate: float, parallelism: int, **given: object) -> TaskSpec:
        loads = wide if case.is_spare or name != case.narrow else tight
        return figures.make(
            TaskSpec,
            "task",
            name,
            name=name,
            application="word count",
            parallelism=parallelism,
            cpu_s=parallelism / (rate * loads),
            **given,
        )

    steps = Steps([(0.0, lines), (figure("step_s"), lines * (figure("step_factor") if case.rises else 1.0))])
    return ClusterSpec(
        machines=[
            figures.make(
                MachineSpec,
                "machine",
                name=f"tm{number}",
                foreign_cores=Constant(figure("foreign_cores") if case.foreign and number == 1 else 0.0),
            )
            for number in range(count)
        ],
        applications=[figures.make(ApplicationSpec, "application", name="word count")],
        tasks=[
            task("lines", lines, 1, machines=("tm0",)),
            task("split", lines, 2, machines=("tm1", "tm2")),
            task("count", lines * words, 2, is_keyed=True, zipf=case.zipf, machines=("tm3", "tm4")),
        ],
        sources=[figures.make(SourceSpec, "source", task="lines", rate=steps, partition_shares=(0.25,) * 4)],
        edges=[
            figures.make(EdgeSpec, "edge", producer="lines", consumer="split"),
            figures.make(EdgeSpec, "edge", producer="split", consumer="count", selectivity=words, exchange="hash"),
        ],
        actions=figures.make(
            ActionSpec, "actions", scope="task", restores="moved", owners="sticky", accesses_per_bucket=0.0
        ),
        reports=figures.make(ReportSpec, "reports"),
    )


def ran(figures: Parameters, case: WordCountCase, policy: Policy[Any] | None, seed: int) -> tuple[Cluster, Run]:
    """Run a case, with a policy that decides every 5 s or with none."""
    cluster = Cluster(word_count(figures, case), seed, STEP_S, STEP_MOST_S)
    policies = [] if policy is None else [Scheduled("policy", policy, 5.0, WARM_S)]
    return cluster, run(cluster, policies, float(figures.value("word_count", "until_s")))


def recovery_s(figures: Parameters, completed: Run) -> float:
    """Return how long after the step the lag was worth more than a second of input for the last time."""
    step_s, until_s = (float(figures.value("word_count", name)) for name in ("step_s", "until_s"))
    times = np.array(completed.series.times_s)
    lag = completed.series.task("lag", "lines")
    appended = np.maximum(completed.series.task("appended", "lines"), 1e-9)
    late = (lag > appended) & (times > step_s)
    return float(min(times[late].max() - step_s, until_s - step_s)) if late.any() else 0.0


def rescaled(completed: Run) -> list[RescalePlan]:
    """Return the decisions that changed something."""
    return [record.decision for record in completed.records if isinstance(record.decision, RescalePlan)]
