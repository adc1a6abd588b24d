"""What Sage is compared with: parallelism before memory and cores, and a rule for each resource that knows no other."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from penstock.model.plan import ApplicationSize, Decision, NoChange, RescalePlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.sage import Remembered, Sage
from penstock.scheduler.sizing import RULES, Resource, Rule, ThreadsUp


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


@dataclass(frozen=True, slots=True)
class OneResource(Sage):
    """Sage's rules for one resource alone."""

    resource: Resource = Resource.HEAP

    def rules(self) -> Sequence[Rule]:
        """Return the rules of the resource."""
        return tuple(rule for rule in RULES if rule.resource == self.resource)


@dataclass(frozen=True, slots=True)
class Independent:
    """A controller for each resource, as for virtual machines: each with its own rules, windows and waits."""

    each: tuple[OneResource, ...]

    @classmethod
    def like(cls, policy: Sage) -> "Independent":
        """Return controllers with the bounds of a policy."""
        return cls(tuple(OneResource(**bounds_of(policy), resource=resource) for resource in Resource))

    def start(self) -> tuple[Remembered, ...]:
        """Remember nothing."""
        return tuple(policy.start() for policy in self.each)

    def decide(
        self, snapshot: ClusterSnapshot, memory: tuple[Remembered, ...]
    ) -> tuple[Decision, tuple[Remembered, ...]]:
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
