"""The one loop that runs policies on a simulated cluster: any of them, and nothing here knows which.

Each is between its guards. `run` keeps every snapshot, decision and outcome, and the truth beside them as series.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.benchmarks.papers.cluster_model.actions import ActionOutcome, Platform
from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.reports import Observer, Reporter
from penstock.benchmarks.papers.cluster_model.series import Series
from penstock.model.plan import Decision
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.guarded import guarded
from penstock.scheduler.limits import PlanLimits

_INFINITE, _COUNTLESS = float("inf"), 2**40
EVALUATED = PlanLimits(
    step_factor=_INFINITE,
    most_parallelism=_COUNTLESS,
    most_instances=_COUNTLESS,
    most_cores=_INFINITE,
    most_memory_bytes=_INFINITE,
    slower=_INFINITE,
)
"""Limits of a policy that is evaluated: how far it goes, and what it puts down to a service, is what is measured."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A policy that decides every ``period_s``, for the first time after ``first_s`` (None: after one period)."""

    name: str
    policy: Policy[Any]
    period_s: float
    first_s: float | None = None


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A policy's snapshot and decision at ``time_s``, and its outcome."""

    time_s: float
    policy: str
    snapshot: ClusterSnapshot
    decision: Decision
    outcome: ActionOutcome


@dataclass(slots=True)
class Run:
    """The record of a run: decisions in their order, and series."""

    series: Series
    records: list[DecisionRecord] = field(default_factory=list)

    def decisions(self, policy: str) -> Sequence[DecisionRecord]:
        """Return the records of one policy."""
        return [record for record in self.records if record.policy == policy]


def run(cluster: Cluster, policies: Sequence[Scheduled], until_s: float) -> Run:
    """Let a cluster go on to ``until_s``, and policies decide; the same cluster, seed and policies give the same."""
    platform, reporter = Platform(cluster), Reporter(cluster)
    observers = {item.name: Observer(cluster, reporter) for item in policies}
    deciding = {item.name: guarded(item.policy, EVALUATED) for item in policies}
    memories = {item.name: deciding[item.name].start() for item in policies}
    due = {item.name: cluster.time_s + (item.period_s if item.first_s is None else item.first_s) for item in policies}
    every_s = cluster.spec.reports.every_s
    report_s = cluster.time_s + every_s
    result = Run(Series.of(cluster))
    while cluster.time_s < until_s - 1e-9:
        cluster.advance(min(until_s, report_s, *due.values(), *cluster.moments))
        platform.turn()
        if cluster.time_s >= report_s - 1e-9:
            result.series.add(cluster, reporter.tick())
            report_s += every_s
        for item in policies:
            if cluster.time_s < due[item.name] - 1e-9:
                continue
            due[item.name] += item.period_s
            snapshot = observers[item.name].look()
            if snapshot is None:
                continue
            decision, memories[item.name] = deciding[item.name].decide(snapshot, memories[item.name])
            outcome = platform.apply(decision, snapshot)
            result.records.append(DecisionRecord(cluster.time_s, item.name, snapshot, decision, outcome))
    return result
