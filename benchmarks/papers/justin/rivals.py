"""The rivals of DS2: one instance more for the hottest task, and Dhalion's rule.

All read the same snapshots at the same moments.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.pacing import Pace, PaceStates, after_action
from penstock.scheduler.scaling_round import open_round
from penstock.scheduler.true_rates import TaskRates, task_rates

PRESSED = 0.05
"""Part of the time that a task waits to send, from which on what it feeds is in its way."""


@dataclass(frozen=True, slots=True)
class OneMoreUnderBackPressure:
    """Adds one instance to the busiest task while some task waits to send."""

    pace: Pace = Pace()

    def start(self) -> PaceStates:
        """Return that nothing was done."""
        return {}

    def decide(self, snapshot: ClusterSnapshot, memory: PaceStates) -> tuple[Decision, PaceStates]:
        """Return one instance more, or nothing."""
        rates = task_rates(snapshot)
        if not (rates.output_wait_share > PRESSED).any():
            return NoChange("nobody waits to send"), memory
        task = int(np.argmax(np.where(snapshot.tasks.is_source, -1.0, rates.busy_share)))
        return _one(self.pace, snapshot, memory, rates, task, float(rates.parallelism[task] + 1))


@dataclass(frozen=True, slots=True)
class Dhalion:
    """Resolves back-pressure of one task a round (Dhalion, VLDB 2017, section 4: scale up the bottleneck).

    The bottleneck is the lowest task that makes one above it wait: p' = ceil(p / (1 - w)), w the part of the time that
    the one above waits, at most ``wait_most``.
    """

    pace: Pace = Pace()
    wait_most: float = 0.9

    def start(self) -> PaceStates:
        """Return that nothing was done."""
        return {}

    def decide(self, snapshot: ClusterSnapshot, memory: PaceStates) -> tuple[Decision, PaceStates]:
        """Return more instances for one task, or nothing."""
        rates, edges = task_rates(snapshot), snapshot.edges
        waits = rates.output_wait_share[edges.producer]
        pressed = np.flatnonzero(waits > PRESSED)
        if not len(pressed):
            return NoChange("nobody waits to send"), memory
        edge = int(pressed[np.argmax(edges.consumer[pressed])])
        task = int(edges.consumer[edge])
        wanted = float(np.ceil(rates.parallelism[task] / (1 - min(float(waits[edge]), self.wait_most))))
        return _one(self.pace, snapshot, memory, rates, task, wanted)


def _one(
    pace: Pace, snapshot: ClusterSnapshot, memory: PaceStates, rates: TaskRates, task: int, parallelism: float
) -> tuple[Decision, PaceStates]:
    """Return that one task grows, if it is somebody's turn."""
    nothing: Floats = np.zeros(len(snapshot.tasks))
    opened = open_round(snapshot, pace, memory, rates, nothing > 0)
    if not opened.may_act.any():
        return NoChange(opened.wait_reason), opened.pace_states
    size = TaskSize(task, int(parallelism))
    turns = after_action(opened.pace_states, snapshot.applications.name, snapshot.time_s)
    return RescalePlan(f"{snapshot.tasks.name[task]} is in the way", tasks=(size,)), turns
