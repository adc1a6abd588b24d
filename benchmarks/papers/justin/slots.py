"""The layer between a policy and the cluster in Justin's testbed, which the simulated cluster does otherwise.

Every slot has managed memory at first, also those of tasks without state (Justin, takeaway 1). Of a generator one sees
only what it emitted, never what it held back. Flink aligns instances with key groups: with few groups
some instances would have more of them than others, and mean busy times would say nothing. The same for all policies.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.model.plan import Decision, RescalePlan, TaskSize
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.autoscaler_rules import aligned_parallelism


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """The policy's memory, and the tasks that were given memory of their own since the start."""

    inner: Any
    given: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Slots:
    """Shows a policy the snapshot as such a cluster has it; if ``is_flink`` its sources are generators, and what it
    decides is aligned.
    """

    policy: Policy[Any]
    slot_bytes: int
    is_flink: bool

    def start(self) -> SlotMemory:
        """Return that nothing was decided."""
        return SlotMemory(self.policy.start())

    def decide(self, snapshot: ClusterSnapshot, memory: SlotMemory) -> tuple[Decision, SlotMemory]:
        """Let the policy decide on what it would see."""
        decision, inner = self.policy.decide(self._shown(snapshot, memory), memory.inner)
        if not isinstance(decision, RescalePlan):
            return decision, SlotMemory(inner, memory.given)
        given = {size.task for size in decision.tasks if size.managed_bytes is not None}
        sizes = tuple(_aligned(snapshot, size) if self.is_flink else size for size in decision.tasks)
        return replace(decision, tasks=sizes), SlotMemory(inner, memory.given | given)

    def _shown(self, snapshot: ClusterSnapshot, memory: SlotMemory) -> ClusterSnapshot:
        tasks, instances = snapshot.tasks, snapshot.instances
        first = ~tasks.is_stateful & ~tasks.is_source & ~np.isin(np.arange(len(tasks)), list(memory.given))
        managed = instances.managed_bytes
        if managed is not None:
            managed = np.where(first[instances.task], float(self.slot_bytes), managed)
        parts = snapshot.partitions
        if self.is_flink:
            parts = replace(parts, appended=parts.consumed)
        return replace(snapshot, instances=replace(instances, managed_bytes=managed), partitions=parts)


def _aligned(snapshot: ClusterSnapshot, size: TaskSize) -> TaskSize:
    if not snapshot.tasks.is_keyed[size.task]:
        return size
    groups = snapshot.tasks.key_groups[[size.task]].astype(np.float64)
    wanted = np.minimum(np.array([float(size.parallelism)]), groups)
    return replace(size, parallelism=int(aligned_parallelism(wanted, groups, groups)[0]))
