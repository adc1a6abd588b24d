"""The rival of Flink-ER: one instance more for whichever task is hottest (first-fit, restart of all)."""

from dataclasses import dataclass

import numpy as np

from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize, not_measured
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.true_rates import task_rates


@dataclass(frozen=True, slots=True)
class Hottest:
    """Adds an instance to the task of the highest saturation while the sources lag; waits ``settle_s`` after it."""

    lag_s: float = 1.0
    settle_s: float = 30.0

    def start(self) -> float:
        """Remember no action."""
        return float("-inf")

    def decide(self, snapshot: ClusterSnapshot, memory: float) -> tuple[Decision, float]:
        """Return one instance more, or nothing."""
        parts, busy = snapshot.partitions, task_rates(snapshot).busy_share
        if parts.end_offset is None or parts.position is None or parts.appended is None or np.isnan(busy).any():
            return not_measured("lag or busy time"), memory
        behind = float((parts.end_offset - parts.position).sum())
        if behind <= self.lag_s * float(parts.appended.sum()) / snapshot.window_s:
            return NoChange("no lag"), memory
        if snapshot.time_s - memory < self.settle_s:
            return NoChange("the last action settles"), memory
        task = int(np.argmax(busy))
        size = TaskSize(task, int((snapshot.instances.task == task).sum()) + 1)
        return RescalePlan(f"{snapshot.tasks.name[task]} is the hottest", tasks=(size,)), snapshot.time_s
