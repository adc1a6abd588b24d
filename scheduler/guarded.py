"""The guards around every policy: only plausible readings reach it, only plans within the limits leave it.

`engine.control.policies` wraps every named policy, the simulated cluster the policies that it runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from penstock.model.plan import Decision, not_measured
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot, RefusalColumns
from penstock.scheduler.limits import PlanLimits, Refusal
from penstock.scheduler.plan_limits import limited_decision
from penstock.scheduler.plausible_readings import clock_fault, plausible_snapshot
from penstock.scheduler.service_veto import UsualWait, service_vetoes

Memory = TypeVar("Memory")


@dataclass(frozen=True, slots=True)
class GuardedMemory(Generic[Memory]):
    """The policy's memory, and the guards' own: the last snapshot, usual waits, refusals of the last plan."""

    policy: Memory
    last_snapshot: ClusterSnapshot | None = None
    usual_wait: UsualWait = field(default_factory=UsualWait)
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class Guarded(Policy[GuardedMemory[Memory]]):
    """A policy between its guards: its readings are plausible, its decisions are kept within the limits.

    The next snapshot that it receives lists the refusals.
    """

    policy: Policy[Memory]
    limits: PlanLimits = PlanLimits()

    def start(self) -> GuardedMemory[Memory]:
        """Return the policy's initial memory, with empty guards."""
        return GuardedMemory(self.policy.start())

    def decide(
        self, snapshot: ClusterSnapshot, memory: GuardedMemory[Memory]
    ) -> tuple[Decision, GuardedMemory[Memory]]:
        """Return the policy's decision within the limits."""
        fault = clock_fault(snapshot, memory.last_snapshot)
        if fault:
            return not_measured(fault), replace(memory, last_snapshot=snapshot)
        readings = plausible_snapshot(snapshot, memory.last_snapshot, self.limits.lost_after_s)
        if memory.refusals:
            readings = replace(readings, refusals=_with(snapshot.refusals, memory.refusals))
        vetoed, usual_wait = service_vetoes(readings, memory.usual_wait, self.limits.slower)
        decision, after = self.policy.decide(readings, memory.policy)
        allowed, refusals = limited_decision(decision, readings, self.limits, vetoed)
        return allowed, GuardedMemory(after, snapshot, usual_wait, refusals)


def over_another_plan(memory: GuardedMemory[Memory]) -> GuardedMemory[Memory]:
    """Return the memory with which a policy goes on once its job has another plan.

    The last snapshot is dropped: rows are of other instances in the next one, and positions go back to a checkpoint.
    """
    return replace(memory, last_snapshot=None)


def guarded(policy: Policy[Any], limits: PlanLimits) -> Guarded[Any]:
    """Return the policy between guards; a guarded policy is returned unchanged."""
    return policy if isinstance(policy, Guarded) else Guarded(policy, limits)


def _with(before: RefusalColumns, refused: Sequence[Refusal]) -> RefusalColumns:
    """Return the refusals that a snapshot came with, and the guards' own."""
    unknown = [np.nan] * len(before)
    asked = unknown if before.asked is None else before.asked.tolist()
    granted = unknown if before.granted is None else before.granted.tolist()
    return RefusalColumns(
        (*before.subject, *(item.subject for item in refused)),
        (*before.what, *(item.what for item in refused)),
        (*before.reason, *(item.reason for item in refused)),
        np.array([*asked, *(item.asked for item in refused)], np.float64),
        np.array([*granted, *(item.granted for item in refused)], np.float64),
    )
