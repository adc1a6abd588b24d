"""Runs a control loop on a simulated cluster: the shell of `scheduler.control_loop`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from penstock.benchmarks.papers.cluster_model.actions import ActionOutcome, Platform
from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.reports import Observer, Reporter
from penstock.benchmarks.papers.cluster_model.series import Series
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.control_loop import ControlLoop
from penstock.scheduler.loop_state import Effect, LoopDecision, LoopState, ended

View = Callable[[ClusterSnapshot], ClusterSnapshot]
"""What a policy is shown of a snapshot."""


@dataclass(frozen=True, slots=True)
class SteeredRecord:
    """A decision of the loop at ``time_s``, and what the platform made of it; None: nobody was to act."""

    time_s: float
    decision: LoopDecision
    outcome: ActionOutcome | None


@dataclass(slots=True)
class SteeredRun:
    """The record of a run: decisions in their order, effects of actions, and series."""

    series: Series
    state: LoopState
    records: list[SteeredRecord] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def acted(self, policy: str) -> list[SteeredRecord]:
        """Return the records in which the platform carried out what a policy decided, keep rates apart."""
        return [
            record
            for record in self.records
            if record.decision.policy == policy
            and record.outcome is not None
            and (record.decision.expectations or record.outcome.result in ("begun", "capped"))
        ]


def steered(cluster: Cluster, loop: ControlLoop, until_s: float, views: Mapping[str, View] | None = None) -> SteeredRun:
    """Let a cluster go on to ``until_s`` under a loop; the same cluster, seed and loop give the same.

    ``views``: what policies are shown of their snapshots, where it is not all of them.
    """
    platform, reporter = Platform(cluster), Reporter(cluster)
    observers = {item.name: Observer(cluster, reporter) for item in loop.policies}
    every_s = cluster.spec.reports.every_s
    report_s = cluster.time_s + every_s
    run = SteeredRun(Series.of(cluster), loop.start(cluster.time_s))
    while cluster.time_s < until_s - 1e-9:
        cluster.advance(min(until_s, report_s, *run.state.due_s.values(), *cluster.moments))
        platform.turn()
        run.state = _with_ended(cluster, run.state)
        if cluster.time_s >= report_s - 1e-9:
            run.series.add(cluster, reporter.tick())
            report_s += every_s
        snapshots = {}
        for name in loop.due(run.state, cluster.time_s):
            seen = observers[name].look()
            if seen is None:
                # Nothing new has arrived: it is asked with the next report.
                run.state = _postponed(run.state, name, report_s)
            else:
                view = (views or {}).get(name)
                snapshots[name] = seen if view is None else view(seen)
        if not snapshots:
            continue
        decisions, effects, run.state = loop.tick(snapshots, cluster.time_s, run.state)
        run.effects += effects
        for decision in decisions:
            outcome = platform.apply(decision.allowed, decision.snapshot) if decision.acts else None
            run.records.append(SteeredRecord(cluster.time_s, decision, outcome))
            if outcome is not None and outcome.result == "refused":
                busy = frozenset().union(*(action.applications for action in run.state.in_flight))
                run.state = ended(run.state, busy - _in_flight(cluster), cluster.time_s, is_done=False)
        run.state = _with_ended(cluster, run.state)
    return run


def _in_flight(cluster: Cluster) -> frozenset[str]:
    names = [item.name for item in cluster.spec.applications]
    return frozenset(names[of] for action in cluster.in_flight for of in action.applications)


def _with_ended(cluster: Cluster, state: LoopState) -> LoopState:
    over = state.busy - _in_flight(cluster)
    return ended(state, over, cluster.time_s, is_done=True) if over else state


def _postponed(state: LoopState, name: str, to_s: float) -> LoopState:
    return replace(state, due_s={**state.due_s, name: to_s})
