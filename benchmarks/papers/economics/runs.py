"""Runs a cluster under one controller, and reads from the truth what sinks got and who moved. Called by all parts."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.loop import Run, Scheduled, run
from penstock.benchmarks.papers.cluster_model.spec import ClusterSpec
from penstock.model.columns import Floats
from penstock.model.plan import ShedPlan
from penstock.model.policy import Policy

FEW = 20
"""Draws of rows that are no headline, of baselines and of controls."""
STEP_S, STEP_MOST_S = 1.0, 2.0
WARM_S = 65.0
"""When controllers begin: no instance counts as warming up any more, and the run's first load has settled."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The paper's findings for a scenario, each true if it came about; a scenario's own verdict has the fields."""

    @property
    def holds(self) -> bool:
        """True if all of them came about."""
        return all(getattr(self, field.name) for field in fields(self))

    def missing(self) -> list[str]:
        """Return what did not come about."""
        return [field.name.replace("_", " ") for field in fields(self) if not getattr(self, field.name)]


@dataclass(frozen=True, slots=True)
class InstanceMove:
    """An instance of a task moved, by the decision at ``time_s``."""

    time_s: float
    task: str
    number: int
    to: str


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is over."""

    cluster: Cluster
    done: Run

    @property
    def times_s(self) -> Floats:
        """The time of each report."""
        return np.array(self.done.series.times_s)

    def accuracy(self, task: str, begin_s: float, end_s: float) -> float:
        """Return which part of the rows that came for a task in a time took part; 1 is the most, a backlog is not more.

        ac(t) = min over paths of kept / appended at the source x (1 - dropped / out) of the edge
        """
        series, graph = self.done.series, self.cluster.graph
        chosen = self.within(begin_s, end_s)
        sums = {name: series.table(name)[chosen].sum(axis=0) for name in ("processed", "appended")}
        number = series.tasks.index(task)

        def of_source(row: int) -> float:
            return min(1.0, float(sums["processed"][row] / max(sums["appended"][row], 1e-9)))

        if graph.is_source[number]:
            return of_source(number)
        produced, dropped = (series.table(name)[chosen].sum(axis=0) for name in ("produced", "dropped"))
        edges = np.flatnonzero(graph.consumer == number)
        return float(
            min(of_source(int(graph.producer[e])) * (1 - dropped[e] / max(produced[e], 1e-9)) for e in edges.tolist())
        )

    def within(self, begin_s: float, end_s: float) -> NDArray[np.bool_]:
        """Return which reports are of a time, its end included."""
        return (self.times_s > begin_s + 1e-9) & (self.times_s <= end_s + 1e-9)

    def lag(self) -> Floats:
        """Return the rows that wait in all logs, by report."""
        return np.asarray(self.done.series.table("lag").sum(axis=1), np.float64)

    def plans(self) -> list[tuple[float, ShedPlan]]:
        """Return the decisions that set shedders, with their times."""
        return [(item.time_s, item.decision) for item in self.done.records if isinstance(item.decision, ShedPlan)]

    def sheds(self, begin_s: float, end_s: float) -> bool:
        """Return whether a decision of this time lets a shedder drop something."""
        return any(begin_s < at_s <= end_s and bool(plan.source_keep or plan.edge_keep) for at_s, plan in self.plans())

    def moves(self) -> list[InstanceMove]:
        """Return who moved, where the platform did as it was told."""
        moves = []
        for item in self.done.records:
            if isinstance(item.decision, ShedPlan) and item.outcome.result == "begun":
                for move in item.decision.moves:
                    snapshot = item.snapshot
                    task = snapshot.tasks.name[snapshot.instances.task[move.instance]]
                    number = int(snapshot.instances.number[move.instance])
                    moves.append(InstanceMove(item.time_s, task, number, snapshot.machines.name[move.machine]))
        return moves


def ran(
    spec: ClusterSpec,
    policy: Policy[Any] | None,
    until_s: float,
    seed: int,
    *,
    begin_s: float = WARM_S,
    period_s: float = 5.0,
    waiting: str | None = None,
    others: Sequence[Scheduled] = (),
) -> FinishedRun:
    """Run a cluster under a controller, or under none; the instances of the task ``waiting`` have no place at first."""
    cluster = Cluster(spec, seed, STEP_S, STEP_MOST_S)
    if waiting is not None:
        task = next(number for number, item in enumerate(spec.tasks) if item.name == waiting)
        cluster.layout.machines[task] = [-1] * cluster.layout.parallelism(task)
        cluster.join(np.zeros(cluster.graph.input_slots), np.zeros((2, cluster.graph.slots)))
    own = [] if policy is None else [Scheduled("qod", policy, period_s, begin_s)]
    return FinishedRun(cluster, run(cluster, [*own, *others], until_s))
