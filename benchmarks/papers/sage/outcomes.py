"""Outcomes of sizing: each application's actions, its size at the end, and what can be said against them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.loop import DecisionRecord, Run
from penstock.benchmarks.papers.sage.applications import latency_bound_s
from penstock.benchmarks.papers.sage.fleet import Member
from penstock.benchmarks.papers.sage.optimum import Optimum, price
from penstock.model.plan import ApplicationSize, RescalePlan
from penstock.scheduler.resizer import Allocation
from penstock.scheduler.shrink_rules import HeapDown

RESOURCES = ("heap", "memory", "cores", "threads")
GROUP = {"heap": 0, "memory": 0, "cores": 1, "threads": 2}
"""Places in Sage's order: memory, CPU, parallelism."""


@dataclass(frozen=True, slots=True)
class Action:
    """A resource of an application got another value."""

    time_s: float
    resource: str
    before: float
    after: float

    @property
    def is_up(self) -> bool:
        """True if it grew."""
        return self.after > self.before


@dataclass(frozen=True, slots=True)
class Outcome:
    """The sizing of an application; ``late``: the most rows that waited at the end, over the bound."""

    actions: tuple[Action, ...]
    final: Allocation
    optimum: Optimum
    oversize: float
    cores_over: float
    memory_over: float
    late: float
    kills: float

    @property
    def sizing_s(self) -> float:
        """The time at which the last action began."""
        return self.actions[-1].time_s if self.actions else 0.0

    @property
    def holds(self) -> bool:
        """True if the final size holds the bounds: no more waits than allowed, and nothing is killed."""
        return self.late <= 1.0 and self.kills == 0

    def undone(self) -> int:
        """Return how many actions took back a shrink: the same resource had been made smaller before."""
        return self._reversals(is_up=True, within_s=float("inf"))

    def swings(self, within_s: float) -> int:
        """Return how often a resource went up and then down within so many seconds."""
        return self._reversals(is_up=False, within_s=within_s)

    def detours(self) -> float:
        """Return how many actions undid a shrink, or went up and then down within the shrink's window."""
        return float(self.undone() + self.swings(HeapDown.window_s))

    def _reversals(self, *, is_up: bool, within_s: float) -> int:
        return sum(
            action.is_up == is_up
            and any(
                old.is_up != is_up and old.resource == action.resource and action.time_s - old.time_s < within_s
                for old in self.actions[:place]
            )
            for place, action in enumerate(self.actions)
        )

    def downs(self) -> int:
        """Return the most shrinks of a memory resource."""
        shrinks = [action.resource for action in self.actions if not action.is_up]
        return max(shrinks.count("heap"), shrinks.count("memory"))

    def in_order(self) -> bool:
        """Tell whether memory grew first, cores next, and threads last, of those that grew."""
        first: dict[int, float] = {}
        for action in self.actions:
            if action.is_up:
                first.setdefault(GROUP[action.resource], action.time_s)
        times = [first[group] for group in sorted(first)]
        return times == sorted(times)


def outcomes(
    members: Sequence[Member], optima: Sequence[Optimum], cluster: Cluster, completed: Run, end_s: float
) -> list[Outcome]:
    """Return what came of each; lateness and kills are those of the last ``end_s`` seconds."""
    acted = actions_of(completed.records, [member.given for member in members])
    times = np.array(completed.series.times_s)
    ending = times > times[-1] - end_s
    lag, kills = completed.series.table("lag")[ending].max(axis=0), completed.series.table("kills")[ending].sum(axis=0)
    result = []
    for number, (member, best) in enumerate(zip(members, optima, strict=True)):
        own = member.application
        final = Allocation(
            float(cluster.cores[number]),
            float(cluster.memory[number]),
            float(cluster.heap[number]),
            int(cluster.parallelism[number]),
        )
        bound = latency_bound_s() * own.mean_rate
        result.append(
            Outcome(
                actions=tuple(acted[number]),
                final=final,
                optimum=best,
                oversize=price(own, final.cores, final.memory_bytes) / best.price - 1,
                cores_over=final.cores / best.given.cores - 1,
                memory_over=final.memory_bytes / best.given.memory_bytes - 1,
                late=float(lag[number] / bound),
                kills=float(kills[number]),
            )
        )
    return result


def actions_of(records: Sequence[DecisionRecord], started: Sequence[Allocation]) -> list[list[Action]]:
    """Return by application what was done, in order; what was refused was not done."""
    now = [
        {"heap": each.heap_bytes, "memory": each.memory_bytes, "cores": each.cores, "threads": float(each.threads)}
        for each in started
    ]
    acted: list[list[Action]] = [[] for _ in started]
    for record in records:
        if not isinstance(record.decision, RescalePlan) or record.outcome.result == "refused":
            continue
        for size in record.decision.applications:
            for resource, value in resources_of(size).items():
                before = now[size.application][resource]
                acted[size.application].append(Action(record.time_s, resource, before, value))
                now[size.application][resource] = value
    return acted


def resources_of(size: ApplicationSize) -> Mapping[str, float]:
    """Return the resources that a decision changes, with their values."""
    values = (size.heap_bytes, size.memory_bytes, size.cores, size.threads)
    return {name: float(value) for name, value in zip(RESOURCES, values, strict=True) if value is not None}
