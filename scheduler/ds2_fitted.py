"""DS2 that learns how instances add up, and leaves alone what carries its target: noise of a window moves nothing.

DS2's own manager has no dead band, so that a figure that is off by a tenth makes it act in window after window. Run by
``penstock decide``; built on `ds2`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.ds2 import ROUNDING, Ds2, Proposal, need
from penstock.scheduler.scaling_round import decided, open_round
from penstock.scheduler.turns import Turns

TaskName = tuple[str, str]
Points = tuple[tuple[float, float], ...]
"""Instances, and the seconds that a row took of one of them, newest last."""


@dataclass(frozen=True, slots=True)
class FittedMemory:
    """Turns by application, and what was seen by application and task."""

    turns: Turns = field(default_factory=dict)
    seen: Mapping[TaskName, Points] = field(default_factory=dict)


def fitted_cost(seen: Points, slope_most: float) -> tuple[float, float]:
    """Return a and b of the cost of a row with p instances, a + b p: a line by least squares through what was seen.

    b lies in [0, ``slope_most``], and is 0 while only one p was seen. A row costs c (1 + sigma (p - 1)) where instances
    slow one another down, so that b = c sigma.
    """
    p, cost = np.array(seen).T
    slope = 0.0
    if len(set(p.tolist())) > 1:
        slope = float(np.cov(p, cost, bias=True)[0, 1] / p.var())
    slope = min(max(slope, 0.0), slope_most)
    return float(cost.mean() - slope * p.mean()), slope


@dataclass(frozen=True, slots=True)
class Ds2Fitted:
    """DS2 on a fitted curve, with a dead band.

    Instances are p = T (a + b p), T being the target. A task grows only while a source of its application reads less
    than ``carried`` of its target, and shrinks by ``shrinks`` of its instances or more. ``slope_most`` keeps noise from
    promising that more instances never suffice: b T is at most that. ``keeps``: windows that are remembered.
    """

    ds2: Ds2 = field(default_factory=Ds2)
    carried: float = 0.99
    shrinks: float = 0.2
    slope_most: float = 0.8
    keeps: int = 16

    def __post_init__(self) -> None:
        if not (0 < self.carried <= 1 and 0 <= self.shrinks < 1 and 0 <= self.slope_most < 1 and self.keeps >= 2):
            raise ValueError("carried is in (0, 1], shrinks and slope_most in [0, 1), keeps is 2 or more")

    def start(self) -> FittedMemory:
        """Return that nothing was seen."""
        return FittedMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: FittedMemory) -> tuple[Decision, FittedMemory]:
        """Return the instances that suffice by what was seen so far, of the applications whose turn it is."""
        proposal, of = self.ds2.propose(snapshot), snapshot.tasks.application
        opened = open_round(snapshot, self.ds2.pace, memory.turns, proposal.rates, proposal.missing)
        seen = self._noted(snapshot, proposal, memory, opened.may_act[of])
        wanted, now = self._wanted(snapshot, proposal, seen), proposal.rates.parallelism
        short = self._short(snapshot, proposal)[of]
        acts = opened.may_act[of] & ~snapshot.tasks.is_source & ~proposal.missing
        changed = acts & ((wanted > now) & short | (wanted < np.floor((1 - self.shrinks) * now)))
        sizes = [TaskSize(task, int(wanted[task])) for task in np.flatnonzero(changed).tolist()]
        reason = "what was seen asks for another parallelism"
        numbers = need(snapshot, proposal, changed)
        decision, turns = decided(snapshot, self.ds2.pace, opened, sizes, reason, numbers)
        return decision, FittedMemory(turns, seen)

    def _short(self, snapshot: ClusterSnapshot, proposal: Proposal) -> Bools:
        """Return the applications of which a source reads less than its target."""
        found = np.zeros(len(snapshot.applications), np.bool_)
        behind = snapshot.tasks.is_source & (proposal.rates.rate_in < self.carried * proposal.target_in)
        np.logical_or.at(found, snapshot.tasks.application, behind)
        return found

    def _noted(
        self, snapshot: ClusterSnapshot, proposal: Proposal, memory: FittedMemory, is_due: Bools
    ) -> dict[TaskName, Points]:
        rates, names = proposal.rates, _names(snapshot)
        seen = {name: points for name, points in memory.seen.items() if name in set(names)}
        for task in np.flatnonzero(is_due & (rates.true_rate > 0) & np.isfinite(rates.true_rate)).tolist():
            point = (float(rates.parallelism[task]), float(rates.parallelism[task] / rates.true_rate[task]))
            seen[names[task]] = (*seen.get(names[task], ()), point)[-self.keeps :]
        return seen

    def _wanted(self, snapshot: ClusterSnapshot, proposal: Proposal, seen: Mapping[TaskName, Points]) -> Floats:
        """Return ceil(p) by task with p = T (a + b p); as it is where nothing was seen, or must come."""
        wanted, names = proposal.rates.parallelism.copy(), _names(snapshot)
        for task in np.flatnonzero(proposal.target_in > 0).tolist():
            points, target = seen.get(names[task], ()), float(proposal.target_in[task])
            if points:
                offset, slope = fitted_cost(points, self.slope_most / target)
                p = target * offset / (1 - target * slope)
                wanted[task] = max(1.0, float(np.ceil(p * (1 - ROUNDING))))
        most = np.where(snapshot.tasks.is_keyed, snapshot.tasks.key_groups.astype(np.float64), np.inf)
        return np.minimum(wanted, most)


def _names(snapshot: ClusterSnapshot) -> list[TaskName]:
    applications, tasks = snapshot.applications.name, snapshot.tasks
    return [(applications[of], name) for of, name in zip(tasks.application.tolist(), tasks.name, strict=True)]
