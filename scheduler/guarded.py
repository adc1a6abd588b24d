"""The guards that every policy passes through: what it sees can be true, what it asks for can be had.

`engine.control.policies` wraps each policy that has a name, the simulated cluster those that it runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from penstock.model.plan import Decision, NoChange
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot, RefusalColumns
from penstock.scheduler.limits import Limits, Refusal
from penstock.scheduler.plan_limits import limited
from penstock.scheduler.plausible_readings import clock_fault, plausible
from penstock.scheduler.service_veto import UsualWait, faltering

Memory = TypeVar("Memory")


@dataclass(frozen=True, slots=True)
class GuardedMemory(Generic[Memory]):
    """What the policy remembers; beside it the last snapshot, usual waits, and what was refused of the last plan."""

    policy: Memory
    before: ClusterSnapshot | None = None
    usual: UsualWait = field(default_factory=UsualWait)
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class Guarded(Policy[GuardedMemory[Memory]]):
    """A policy between its guards. It decides on readings that can be true, and what it decides is kept to limits.

    The next snapshot that it sees says what was refused.
    """

    policy: Policy[Memory]
    limits: Limits = Limits()

    def start(self) -> GuardedMemory[Memory]:
        """Return what the policy remembers at first, and nothing else."""
        return GuardedMemory(self.policy.start())

    def decide(
        self, snapshot: ClusterSnapshot, memory: GuardedMemory[Memory]
    ) -> tuple[Decision, GuardedMemory[Memory]]:
        """Return the policy's decision as far as limits go."""
        fault = clock_fault(snapshot, memory.before)
        if fault:
            return NoChange(f"not measured: {fault}"), replace(memory, before=snapshot)
        seen = plausible(snapshot, memory.before, self.limits.lost_after_s)
        if memory.refused:
            seen = replace(seen, refusals=_columns(memory.refused))
        vetoed, usual = faltering(seen, memory.usual, self.limits.slower)
        decision, after = self.policy.decide(seen, memory.policy)
        made, refused = limited(decision, seen, self.limits, vetoed)
        return made, GuardedMemory(after, snapshot, usual, refused)


def guarded(policy: Policy[Any], limits: Limits) -> Guarded[Any]:
    """Return a policy between guards; one that is guarded already keeps those that it has."""
    return policy if isinstance(policy, Guarded) else Guarded(policy, limits)


def _columns(refused: Sequence[Refusal]) -> RefusalColumns:
    return RefusalColumns(
        tuple(item.subject for item in refused),
        tuple(item.what for item in refused),
        tuple(item.reason for item in refused),
        [item.asked for item in refused],  # type: ignore[arg-type]
        [item.granted for item in refused],  # type: ignore[arg-type]
    )
