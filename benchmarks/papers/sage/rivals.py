"""The rivals of Sage: parallelism before memory and cores, and a rule for each resource that knows no other."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from penstock.model.plan import ApplicationSize, Decision, NoChange, RescalePlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.growth_rules import HeapUp, ThreadsUp
from penstock.scheduler.rule_window import RuleWindow
from penstock.scheduler.sage import Sage, SageMemory
from penstock.scheduler.shrink_rules import HeapDown
from penstock.scheduler.sizing import RULES
from penstock.scheduler.sizing_rule import Resource, Rule, RuleLimits, SizingProposal


class ThreadsUpFirst(ThreadsUp):
    """P4 in the first place: its window is the shortest, as that of the first rule must be."""

    window_s = 300.0


def bounds_of(policy: Sage) -> dict[str, Any]:
    """Return all that a policy was made with."""
    return {field.name: getattr(policy, field.name) for field in fields(Sage)}


@dataclass(frozen=True, slots=True)
class ParallelismFirst(Sage):
    """Sage with more threads for every backlog before memory and cores are looked at."""

    def rules(self) -> Sequence[Rule]:
        """Return the rules, that of more threads first."""
        return (ThreadsUpFirst(), *(rule for rule in RULES if not isinstance(rule, ThreadsUp)))


class OwnUse(Rule):
    """A rule as clouds have it for virtual machines: one resource, by how much of it is used, and nothing else.

    It has as much time as Sage's rules have, up and down.
    """

    def __init__(self, resource: Resource, is_up: bool) -> None:
        """Let it grow, or shrink."""
        self.name = f"{_NAMES[resource]} {'up' if is_up else 'down'}"
        self.resource = resource
        self.window_s = HeapUp.window_s if is_up else HeapDown.window_s
        self.needs = _USES[resource]
        self.after = (resource,)
        self.is_up = is_up

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Multiply what is used up; set what is not to the most that was used, and the margin."""
        given, used = (getattr(window.ticks, name) for name in self.needs)
        now, value = given[-1], used.max(axis=0) * (1 + limits.margin)
        if self.is_up:
            fires, value = (used / given).mean(axis=0) > limits.up, now * limits.growth
        else:
            fires = value < limits.down * now
        return SizingProposal(fires, np.ceil(value) if self.resource is Resource.THREADS else value)


_NAMES = {Resource.HEAP: "heap", Resource.MEMORY: "memory", Resource.CORES: "CPU", Resource.THREADS: "parallelism"}
_USES = {
    Resource.HEAP: ("heap", "heap_used"),
    Resource.MEMORY: ("memory", "resident"),
    Resource.CORES: ("cores", "cpu"),
    Resource.THREADS: ("threads", "busy_threads"),
}


@dataclass(frozen=True, slots=True)
class OneResource(Sage):
    """Rules for one resource alone, which know no other: not the backlog, nor what collecting garbage takes."""

    resource: Resource = Resource.HEAP

    def rules(self) -> Sequence[Rule]:
        """Return the rules of the resource."""
        return (OwnUse(self.resource, True), OwnUse(self.resource, False))


@dataclass(frozen=True, slots=True)
class Independent:
    """A controller for each resource, as for virtual machines: each with its own rules, windows and waits."""

    each: tuple[OneResource, ...]

    @classmethod
    def like(cls, policy: Sage) -> "Independent":
        """Return controllers with the bounds of a policy."""
        return cls(tuple(OneResource(**bounds_of(policy), resource=resource) for resource in Resource))

    def start(self) -> tuple[SageMemory, ...]:
        """Remember nothing."""
        return tuple(policy.start() for policy in self.each)

    def decide(
        self, snapshot: ClusterSnapshot, memory: tuple[SageMemory, ...]
    ) -> tuple[Decision, tuple[SageMemory, ...]]:
        """Return what all of them ask for, at once."""
        sizes: list[ApplicationSize] = []
        reasons, after = [], []
        for policy, own in zip(self.each, memory, strict=True):
            decision, remembered = policy.decide(snapshot, own)
            after.append(remembered)
            if isinstance(decision, RescalePlan):
                sizes += decision.applications
                reasons.append(decision.reason)
        if not sizes:
            return NoChange("no rule asks for anything"), tuple(after)
        return RescalePlan("; ".join(reasons), applications=tuple(sizes)), tuple(after)
