"""Load shedding of a running job, cycle by cycle: snapshot in, keep rates out.

The policy stands in `shedding/qod.py`. Around it: the backlogs that count, useful time for CPU, what is fixed and what
segments cost, rates in steps. One thread calls it; it touches nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.engine.control.chosen_policies import who_sheds
from penstock.engine.control.error_needs import ErrorNeeds
from penstock.engine.control.part_reading import edges_between_tasks
from penstock.engine.control.shedding_scope import SheddingScope, shedding_scope
from penstock.engine.control.steering import role_of
from penstock.model.control import NO_LIMITS, Control, Limits, keep_policy
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.keep_rates import KeepRates
from penstock.model.plan import Cause, Decision, NoChange, ShedPlan
from penstock.model.shedding_status import QueryAccuracy, SheddingStatus
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.guarded import Guarded
from penstock.scheduler.ownership import owned_part
from penstock.shedding.full_loops import FullLoops, learned, with_full_loops
from penstock.shedding.keep_settings import ShedderQueries, keep_rates, with_needs
from penstock.shedding.keeping_up import is_idle, keeps_up
from penstock.shedding.qod_sources import NO_LAGS, OfferedRates, offered_to_sources
from penstock.shedding.result_errors import ErrorCounts
from penstock.shedding.segments import Fits, Segment, fitted, with_segments
from penstock.shedding.source_backlog import BacklogRule, counted_backlog
from penstock.shedding.useful_time import with_useful_time

_WITHOUT_POLICY = ("off", "sic")
"""Whoever sheds by SIC decides where rows are read."""


@dataclass(frozen=True, slots=True)
class ShedCycle:
    """The outcome of a cycle: what the policy saw and decided, and the rates from now on; ``exempt``: kept whole."""

    snapshot: ClusterSnapshot
    decision: Decision
    rates: KeepRates
    exempt: frozenset[str]
    status: SheddingStatus


class LoadShedding:
    """Keep rates of one run, and what is remembered between two cycles."""

    def __init__(self, graph: ExecutionGraph, control: Control, *, moves: bool = False) -> None:
        """Begin with nothing shed, and the limits of the program; ``moves``: somebody carries moves out."""
        self._graph, self._control, self._moves = graph, control, moves
        self._fits: Fits = {}
        self._full = FullLoops()
        self._old: Mapping[str, float] | None = None
        self._rates = KeepRates()
        self._infeasible = ""
        self._errors = ErrorNeeds()
        self.limits = NO_LIMITS
        self.scope = self._scope(NO_LIMITS)
        self.shed: str = control.shed
        if self.shed not in _WITHOUT_POLICY:
            self.take_policy(who_sheds(self._control, self.shed, moves=self._moves))

    def _scope(self, limits: Limits) -> SheddingScope:
        return shedding_scope(self._graph, limits)

    def take_policy(self, policy: Guarded[Any]) -> None:
        """Let this policy decide, beginning with an empty memory."""
        self.policy = policy
        self._memory: Any = policy.start()

    def change(self, limits: Limits) -> None:
        """Let these limits hold, in place of those before.

        Raises:
            OptionError: they are of a query that there is not, or that has no contract; nothing has changed then.
        """
        if limits == self.limits:
            return
        self.scope, self.limits = self._scope(limits), limits
        before, self.shed = self.shed, limits.shed or self._control.shed
        if self.shed not in (*_WITHOUT_POLICY, before):
            self.take_policy(who_sheds(self._control, self.shed, moves=self._moves))

    @property
    def mode(self) -> str:
        """Whether rates are set or said."""
        return "act" if self.is_acting else "recommend"

    @property
    def is_acting(self) -> bool:
        """Whether rates are to be set, and not only said."""
        return self._control.may_shed

    @property
    def counts_sic(self) -> bool:
        """Whether SIC is to be counted, as it decides what is dropped, or would."""
        return self.shed in ("sic", "both")

    @property
    def policy_name(self) -> str:
        """The policy that chooses keep rates."""
        return keep_policy(self.shed) or self.shed

    @property
    def shedder(self) -> str:
        """The shedder of what waits, where SIC is counted."""
        return self._control.shedder

    @property
    def shed_backlog(self) -> bool:
        """Whether rows that waited before may be shed."""
        return self._control.shed_backlog

    @property
    def period_s(self) -> int:
        """The time between two cycles."""
        return self._control.period_s

    @property
    def shedders(self) -> ShedderQueries:
        """The shedders, by name, with the least rates of the last cycle."""
        return with_needs(self.scope.shedders, self._errors.needs)

    def cycle(
        self, snapshot: ClusterSnapshot, in_force: KeepRates, errors: Mapping[str, ErrorCounts] | None = None
    ) -> ShedCycle | None:
        """Decide on a snapshot of the job, in whose window rates were in force; None: nothing is decided any more.

        ``errors``: those of the rows in the window, of queries that want certain ones.
        """
        if self.shed in _WITHOUT_POLICY:
            self._rates, self._infeasible = KeepRates(), ""
            return None
        scope, control = self.scope, self._control
        seen = with_useful_time(scope.with_limits(snapshot))
        shed_tasks = frozenset(scope.source_tasks[name] for name, rate in in_force.sources.items() if rate < 1.0)
        rule = BacklogRule(control.shed_backlog, scope.max_lag_s)
        backlog = counted_backlog(seen, rule, self._old, shed_tasks)
        self._old = backlog.old
        segments = _segments(scope, seen, in_force)
        self._fits = fitted(seen, segments, self._fits)
        all_free = with_segments(backlog.snapshot, segments, self._fits)
        # What waits while nothing is shed may be the little that a loop with time leaves until its next step.
        is_shed = min([*in_force.sources.values(), *in_force.branches.values()], default=1.0) < 1.0
        near = backlog.near if is_shed else frozenset()
        self._full = learned(self._full, backlog.snapshot, all_free, lambda: self._all_fits(all_free), near)
        prepared = with_full_loops(all_free, self._full)
        self._errors.learn(scope, errors or {}, in_force)
        self._errors.decide(scope, lambda needs: self._is_feasible(_with_least(prepared, needs)))
        prepared = _with_least(prepared, self._errors.needs)
        decided, self._memory = self.policy.decide(prepared, self._memory)
        decision, _ = owned_part(decided, role_of(self.policy_name).owns, prepared)
        desired, reason = dict.fromkeys(prepared.queries.name, 1.0), decision.reason
        exempt = frozenset(name for name, task in scope.source_tasks.items() if task in backlog.exempt)
        if isinstance(decision, ShedPlan):
            desired |= dict(zip(prepared.queries.name, decision.desired_accuracy, strict=True))
            whole = {query for source in exempt for query in scope.shedders.sources[source]}
            desired |= dict.fromkeys(whole, 1.0)
            if exempt:
                names = ", ".join(map(repr, sorted(exempt)))
                reason = f"{decision.reason}; not shed yet: what waits at {names} is old, or may wait"
            has_room = keeps_up(seen) or is_idle(seen)
            if has_room:
                now = self._kept(seen, in_force)
                desired = {query: max(share, now[query]) for query, share in desired.items()}
            self._rates = keep_rates(desired, self.shedders, self._rates)
            # A task whose minimum needs more than one thread is asked more instances for, and fails no machine.
            lacks = _lacks(decision) and not has_room
            self._infeasible = f"minimum accuracies cannot be met ({decision.reason})" if lacks else ""
        elif isinstance(decision, NoChange) and decision.cause is Cause.DECIDED:
            self._rates, self._infeasible = KeepRates(), ""
        return ShedCycle(prepared, decision, self._rates, exempt, self._status(seen, desired, reason, in_force))

    def _all_fits(self, snapshot: ClusterSnapshot) -> bool:
        """Return whether by this snapshot nothing need be shed."""
        decision, _ = self.policy.decide(snapshot, self._memory)
        if isinstance(decision, ShedPlan):
            return min(decision.desired_accuracy, default=1.0) >= 1.0
        return isinstance(decision, NoChange) and decision.cause is Cause.DECIDED

    def _is_feasible(self, snapshot: ClusterSnapshot) -> bool:
        """Return whether the minimums of a snapshot would fit; a policy that cannot see refuses none."""
        decision, _ = self.policy.decide(snapshot, self._memory)
        return not isinstance(decision, ShedPlan) or not _lacks(decision)

    def _kept(
        self, seen: ClusterSnapshot, in_force: KeepRates, read: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """Return the share of rows that each query was given; ``read``: the share of its input that a source reads."""
        scope = self.scope
        shares = dict.fromkeys(seen.queries.name, 1.0)
        for source, queries in scope.shedders.sources.items():
            for query in queries:
                kept = in_force.sources.get(source, 1.0)
                rates = [
                    in_force.branches.get(edge, kept)
                    for edge, behind in scope.shedders.branches.items()
                    if query in behind and scope.shedders.origin[edge] == source
                ]
                shares[query] = min(shares[query], min([kept, *rates]) * (read or {}).get(source, 1.0))
        return shares

    def _status(
        self, seen: ClusterSnapshot, desired: Mapping[str, float], reason: str, in_force: KeepRates
    ) -> SheddingStatus:
        scope = self.scope
        current = self._kept(seen, in_force, _share_read(seen, scope))
        return SheddingStatus(
            self.shed,
            self.mode,
            reason,
            tuple(
                QueryAccuracy(
                    name,
                    scope.minimum[name],
                    scope.priority[name],
                    desired[name],
                    current[name],
                    scope.goals[name].error if name in scope.goals else None,
                    self._errors.error_of(name, current[name]),
                    self._errors.needs.get(name),
                ).rounded()
                for name in seen.queries.name
            ),
            tuple(sorted(self._rates.sources.items())),
            tuple((*edge, rate) for edge, rate in sorted(self._rates.branches.items())),
            self._infeasible,
            missed=self._errors.missed,
        )


def _lacks(plan: ShedPlan) -> bool:
    return bool(plan.failed or plan.demands)


def _with_least(snapshot: ClusterSnapshot, needs: Mapping[str, float]) -> ClusterSnapshot:
    """Return a snapshot in which queries may not be shed below what they need."""
    queries = snapshot.queries
    least = [needs.get(name, 0.0) for name in queries.name]
    return replace(snapshot, queries=replace(queries, minimum_accuracy=np.maximum(queries.minimum_accuracy, least)))


def _share_read(seen: ClusterSnapshot, scope: SheddingScope) -> dict[str, float]:
    """Return the share of its input that each source has read in the window, 1 where that is not known."""
    offered = offered_to_sources(seen, seen.tasks.is_source, "end offsets", None, NO_LAGS)
    consumed = seen.partitions.consumed
    if consumed is None or not isinstance(offered, OfferedRates):
        return {}
    task_of = seen.instances.task[seen.partitions.instance]
    rows = np.bincount(task_of, np.nan_to_num(consumed), len(seen.tasks)) / seen.window_s
    names = {name: row for row, name in enumerate(seen.tasks.name)}
    shares = {}
    for source, task in scope.source_tasks.items():
        rate = float(offered.task[names[task]])
        shares[source] = min(1.0, float(rows[names[task]]) / rate) if rate > 0 else 1.0
    return shares


def _segments(scope: SheddingScope, snapshot: ClusterSnapshot, in_force: KeepRates) -> list[Segment]:
    """Return the segments behind branches inside the chains of sources, parents first."""
    graph = scope.graph
    names = {node.name: node.id for node in graph.graph.operators.values()}
    tasks = {task.id: number for number, task in enumerate(graph.tasks)}
    order = [operator for task in graph.tasks for operator in task.operators]
    edges = sorted(scope.points.branches, key=lambda edge: order.index(names[edge[1]]))
    inside = [edge for edge in edges if graph.task_of(names[edge[0]]) is graph.task_of(names[edge[1]])]
    owner: dict[Any, int] = {}
    above: list[int] = []
    for number, edge in enumerate(inside):
        above.append(owner.get(names[edge[0]], -1))
        pending = [names[edge[1]]]
        while pending:
            operator = pending.pop()
            owner[operator] = number
            pending += [each.consumer for each in graph.outgoing(operator) if each.chained]
    between = [edge.producer for edge in edges_between_tasks(graph)]
    segments = []
    for number, edge in enumerate(inside):
        source = scope.shedders.origin[edge]
        kept = in_force.sources.get(source, 1.0)
        # Guards of several task managers may have lowered a source below a branch of another one.
        share = min(1.0, in_force.branches.get(edge, kept) / kept) if kept > 0 else 0.0
        own = {operator for operator, whose in owner.items() if whose == number}
        segments.append(
            Segment(
                f"{edge[0]} > {edge[1]}",
                tasks[graph.task_of(names[edge[1]]).id],
                above[number],
                tuple(row for row, name in enumerate(snapshot.queries.name) if names[name] in own),
                tuple(row for row, producer in enumerate(between) if producer in own),
                share,
            )
        )
    return segments
