"""DS2 with a learned scaling curve and a dead band: noise in one window changes nothing.

DS2's own manager has no dead band, so a figure that is off by a tenth makes it act in window after window. Run by
``penstock decide``; built on `ds2`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.ds2 import ROUNDING, Ds2, ScalingProposal, need
from penstock.scheduler.pacing import PaceStates
from penstock.scheduler.scaling_round import open_round, round_decision
from penstock.scheduler.true_rates import any_by

TaskName = tuple[str, str]
Points = tuple[tuple[float, float], ...]
"""Instances, and the seconds that one of them spends on a row, newest last."""


@dataclass(frozen=True, slots=True)
class FittedMemory:
    """The policy's memory: pace by application, measured points by application and task."""

    pace_states: PaceStates = field(default_factory=dict)
    points: Mapping[TaskName, Points] = field(default_factory=dict)


def fitted_cost(points: Points, slope_most: float) -> tuple[float, float]:
    """Return a and b of the cost of a row with p instances, a + b p: a least-squares line.

    b lies in [0, ``slope_most``], and is 0 while only one p was measured. A row costs c (1 + sigma (p - 1)) where
    instances slow one another down, so that b = c sigma.
    """
    p, cost = np.array(points).T
    slope = 0.0
    if len(set(p.tolist())) > 1:
        slope = float(np.cov(p, cost, bias=True)[0, 1] / p.var())
    slope = min(max(slope, 0.0), slope_most)
    return float(cost.mean() - slope * p.mean()), slope


@dataclass(frozen=True, slots=True)
class Ds2Fitted:
    """DS2 on a fitted curve, with a dead band.

    Instances are p = T (a + b p), T being the target. A task grows only while a source of its application reads less
    than ``carried`` of its target, and shrinks by more than ``shrinks`` of its instances; by one of them, too, if p and
    ``ds2.shrink_margin`` of it fit into the others. Sources are sized if ``ds2.scales_sources``. ``slope_most`` keeps
    noise from predicting that no number of instances suffices: b T is at most that. ``keeps``: windows remembered.
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
        """Return the empty memory."""
        return FittedMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: FittedMemory) -> tuple[Decision, FittedMemory]:
        """Return the instances that suffice according to the fitted curve, for the due applications."""
        proposal, of = self.ds2.propose(snapshot), snapshot.tasks.application
        scaling_round = open_round(snapshot, self.ds2.pace, memory.pace_states, proposal.rates, proposal.missing)
        points = self._with_new_points(snapshot, proposal, memory, scaling_round.may_act[of])
        instances, now = self._instances(snapshot, proposal, points), proposal.rates.parallelism
        parallelism = _whole(snapshot, instances)
        short = self._short(snapshot, proposal)[of]
        is_sized = ~snapshot.tasks.is_source | self.ds2.scales_sources
        acts = scaling_round.may_act[of] & is_sized & ~proposal.missing
        shrinks = (parallelism < np.floor((1 - self.shrinks) * now)) | self._frees_one(instances, parallelism, now)
        changed = acts & ((parallelism > now) & short | shrinks)
        sizes = [TaskSize(task, int(parallelism[task])) for task in np.flatnonzero(changed).tolist()]
        reason = "what was seen asks for another parallelism"
        numbers = need(snapshot, proposal, changed)
        cores = self.ds2.cores(snapshot, proposal, scaling_round.may_act, sizes)
        decision, pace_states = round_decision(snapshot, self.ds2.pace, scaling_round, sizes, reason, numbers, cores)
        return decision, FittedMemory(pace_states, points)

    def _short(self, snapshot: ClusterSnapshot, proposal: ScalingProposal) -> Bools:
        """Return the applications in which a source reads less than its target."""
        behind = snapshot.tasks.is_source & (proposal.rates.rate_in < self.carried * proposal.target_in)
        return any_by(snapshot.tasks.application, behind, len(snapshot.applications))

    def _with_new_points(
        self, snapshot: ClusterSnapshot, proposal: ScalingProposal, memory: FittedMemory, is_due: Bools
    ) -> dict[TaskName, Points]:
        rates, names = proposal.rates, snapshot.task_names()
        points = {name: previous for name, previous in memory.points.items() if name in set(names)}
        for task in np.flatnonzero(is_due & (rates.true_rate > 0) & np.isfinite(rates.true_rate)).tolist():
            point = (float(rates.parallelism[task]), float(rates.parallelism[task] / rates.true_rate[task]))
            points[names[task]] = (*points.get(names[task], ()), point)[-self.keeps :]
        return points

    def _frees_one(self, instances: Floats, parallelism: Floats, now: Floats) -> Bools:
        """Return the tasks that need one instance less, and leave room in the others."""
        fits = (1 + self.ds2.shrink_margin) * instances <= parallelism
        return np.asarray((parallelism == now - 1) & fits, np.bool_)

    def _instances(
        self, snapshot: ClusterSnapshot, proposal: ScalingProposal, points: Mapping[TaskName, Points]
    ) -> Floats:
        """Return p by task with p = T (a + b p), not rounded; as it is without measured points or without a target."""
        instances, names = proposal.rates.parallelism.copy(), snapshot.task_names()
        for task in np.flatnonzero(proposal.target_in > 0).tolist():
            of_task, target = points.get(names[task], ()), float(proposal.target_in[task])
            if of_task:
                offset, slope = fitted_cost(of_task, self.slope_most / target)
                instances[task] = target * offset / (1 - target * slope)
        return instances


def _whole(snapshot: ClusterSnapshot, instances: Floats) -> Floats:
    """Return ceil(p) by task: one at least, and no more than it has key groups."""
    tasks = snapshot.tasks
    most = np.where(tasks.is_keyed, tasks.key_groups.astype(np.float64), np.inf)
    return np.minimum(np.maximum(1.0, np.ceil(instances * (1 - ROUNDING))), most)
