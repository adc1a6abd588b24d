"""What DS2 is compared with: one instance more for the hottest task, Dhalion's rule, and DS2 with what it has learned.

The rivals are those of papers.md 4.3; all read the same snapshots at the same moments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Floats
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.ds2 import Ds2, Proposal
from penstock.scheduler.scaling_round import open_round
from penstock.scheduler.true_rates import TaskRates, task_rates
from penstock.scheduler.turns import Pace, Turns, acted

PRESSED = 0.05
"""Part of the time that a task waits to send, from which on what it feeds is in its way."""


@dataclass(frozen=True, slots=True)
class OneMoreUnderBackPressure:
    """Adds one instance to the busiest task while some task waits to send."""

    pace: Pace = Pace()

    def start(self) -> Turns:
        """Return that nothing was done."""
        return {}

    def decide(self, snapshot: ClusterSnapshot, memory: Turns) -> tuple[Decision, Turns]:
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

    def start(self) -> Turns:
        """Return that nothing was done."""
        return {}

    def decide(self, snapshot: ClusterSnapshot, memory: Turns) -> tuple[Decision, Turns]:
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


@dataclass(frozen=True, slots=True)
class FittedMemory:
    """Turns, and by task number what was seen: instances and the cost of a row, newest last."""

    turns: Turns = field(default_factory=dict)
    seen: Mapping[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fitted:
    """DS2 that learns how instances add up, and leaves alone what carries its target (papers.md, section 8).

    A row costs c (1 + sigma (p - 1)) with p instances: a line through what was seen, by least squares, of which p =
    T * cost(p) is the solution. One that was seen at one p only costs the same at all. Grows if a source reads less
    than ``carried`` of its target, shrinks by ``shrinks`` of the instances or more. ``slope_most`` keeps noise from
    promising that more instances never suffice: sigma T c is at most that.
    """

    ds2: Ds2 = field(default_factory=Ds2)
    carried: float = 0.99
    shrinks: float = 0.2
    slope_most: float = 0.8
    keeps: int = 16

    def start(self) -> FittedMemory:
        """Return that nothing was seen."""
        return FittedMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: FittedMemory) -> tuple[Decision, FittedMemory]:
        """Return the instances that suffice by what was seen so far, or nothing."""
        proposal = self.ds2.propose(snapshot)
        opened = open_round(snapshot, self.ds2.pace, memory.turns, proposal.rates, proposal.missing)
        if not opened.may_act.all():
            return NoChange(opened.waits), FittedMemory(opened.turns, memory.seen)
        seen = self._noted(proposal, memory)
        wanted = np.array([self._wanted(proposal, seen.get(task, ()), task) for task in range(len(snapshot.tasks))])
        now = proposal.rates.parallelism
        sources = snapshot.tasks.is_source
        short = bool((proposal.rates.rate_in < self.carried * proposal.target_in)[sources].any())
        less = wanted < np.floor((1 - self.shrinks) * now)
        changed = np.flatnonzero(~sources & ((wanted > now) & short | less))
        if not len(changed):
            return NoChange("what there is carries the target"), FittedMemory(opened.turns, seen)
        sizes = tuple(TaskSize(int(task), int(wanted[task])) for task in changed)
        turns = acted(opened.turns, snapshot.applications.name, snapshot.time_s)
        return RescalePlan("what was seen asks for another parallelism", tasks=sizes), FittedMemory(turns, seen)

    def _noted(self, proposal: Proposal, memory: FittedMemory) -> dict[int, tuple[tuple[float, float], ...]]:
        rates = proposal.rates
        seen = dict(memory.seen)
        for task in np.flatnonzero(rates.true_rate > 0).tolist():
            point = (float(rates.parallelism[task]), float(rates.parallelism[task] / rates.true_rate[task]))
            seen[task] = (*seen.get(task, ()), point)[-self.keeps :]
        return seen

    def _wanted(self, proposal: Proposal, seen: tuple[tuple[float, float], ...], task: int) -> float:
        """Return ceil(p) with p = T (a + b p), b = 0 for one p seen; as it is if nothing was."""
        target = float(proposal.target_in[task])
        if not seen:
            return float(proposal.rates.parallelism[task])
        p, cost = np.array(seen).T
        slope = 0.0
        if len(set(p.tolist())) > 1:
            slope = float(np.cov(p, cost, bias=True)[0, 1] / p.var())
        slope = min(max(slope, 0.0), self.slope_most / target)
        offset = float(cost.mean() - slope * p.mean())
        return float(max(1.0, np.ceil(target * offset / (1 - target * slope) * (1 - 1e-9))))


def _one(
    pace: Pace, snapshot: ClusterSnapshot, memory: Turns, rates: TaskRates, task: int, wanted: float
) -> tuple[Decision, Turns]:
    """Return that one task grows, if it is somebody's turn."""
    nothing: Floats = np.zeros(len(snapshot.tasks))
    opened = open_round(snapshot, pace, memory, rates, nothing > 0)
    if not opened.may_act.any():
        return NoChange(opened.waits), opened.turns
    size = TaskSize(task, int(wanted))
    turns = acted(opened.turns, snapshot.applications.name, snapshot.time_s)
    return RescalePlan(f"{snapshot.tasks.name[task]} is in the way", tasks=(size,)), turns
