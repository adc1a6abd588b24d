"""DS2: the parallelism that every task needs, in one step, from true rates (DS2, OSDI 2018, sections 3 and 4).

Run by `penstock decide`; `justin` and `memory_choice` start from its proposal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import CoreNeed, Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.busy_band import BusyBand
from penstock.scheduler.core_needs import core_loads, core_needs, short_applications
from penstock.scheduler.pacing import Pace, PaceStates
from penstock.scheduler.propagation import propagate
from penstock.scheduler.scaling_round import open_round, round_decision
from penstock.scheduler.true_rates import TaskRates, any_by, output_ratios, source_targets, task_rates

ROUNDING = 1e-9
"""A part in 10^9 of an instance is an error of floats, not a need."""


@dataclass(frozen=True, slots=True, eq=False)
class ScalingProposal:
    """The requirement that the sources' targets place on every task.

    ``rates``: what was measured. ``target_in``: T_i (rows/s). ``instances``: x_i, not rounded, NaN where the
    task has no figures. ``parallelism``: pi_i >= 1. ``missing``: a figure that is needed was not measured. ``capped``:
    a keyed task needs more instances than it has key groups.
    """

    rates: TaskRates
    target_in: Floats
    instances: Floats
    parallelism: Floats
    missing: Bools
    capped: Bools


def instances_needed(target_in: Floats, true_rate: Floats, parallelism: Floats) -> Floats:
    """Return x_i = T_i / (lp_i / p_i) (DS2, eq 7, before it is rounded up).

    T_i   rows a second that must enter task i, >= 0
    lp_i  its true processing rate (rows in a useful second), sum of its instances, > 0
    p_i   its instances, >= 1
    """
    return target_in / (true_rate / parallelism)


def optimal_parallelism(instances: Floats, factor: float) -> Floats:
    """Return pi_i = max(1, ceil((1 + factor) * x_i)) (DS2, eq 7).

    x_i     instances needed, not rounded
    factor  share that is added for safety, >= 0
    """
    wanted = (1 + factor) * instances
    return np.maximum(1.0, np.ceil(wanted * (1 - ROUNDING)))


@dataclass(frozen=True, slots=True)
class Ds2:
    """The manager of DS2.

    ``factor`` adds a share of instances. ``target_rate_ratio``: if nothing grows and a source's target exceeds what it
    reads by more than this factor, every parallelism is multiplied by it. ``band``: None acts on every significant
    change, as DS2's own manager does; a band acts when it is left, as Flink's and Justin's do. ``scales_sources``:
    sources are sized too, as Flink does. ``shrink_margin``: a task shrinks by one instance, too, if what it needs, and
    this share of it, fit into the others; infinite: it shrinks by two or more, as DS2's do. ``cores_margin``: cores are
    asked for, as many as all instances need together and this share of it, and instances spread over them where they
    wait for each other's; infinite: each instance has one, as in DS2.
    """

    pace: Pace = Pace()
    factor: float = 0.0
    target_rate_ratio: float = float("inf")
    band: BusyBand | None = None
    scales_sources: bool = False
    shrink_margin: float = float("inf")
    cores_margin: float = float("inf")

    def __post_init__(self) -> None:
        if not (self.factor >= 0 and self.target_rate_ratio >= 1 and min(self.shrink_margin, self.cores_margin) >= 0):
            raise ValueError("a factor and a margin are at least 0, a ratio of rates at least 1")

    def start(self) -> PaceStates:
        """Return the empty memory."""
        return {}

    def decide(self, snapshot: ClusterSnapshot, memory: PaceStates) -> tuple[Decision, PaceStates]:
        """Evaluate every due application, and act where the change is significant."""
        proposal = self.propose(snapshot)
        scaling_round = open_round(snapshot, self.pace, memory, proposal.rates, proposal.missing)
        acts = scaling_round.may_act & (
            self.left_band(snapshot, proposal)
            if self.band
            else significant(snapshot, proposal, self.factor, self.shrink_margin)
        )
        changed = (proposal.parallelism != proposal.rates.parallelism) & acts[snapshot.tasks.application]
        sizes = tuple(TaskSize(int(task), int(proposal.parallelism[task])) for task in np.flatnonzero(changed))
        reason = "rates ask for another parallelism" if self.band is None else "busy time left its band"
        cores = self.cores(snapshot, proposal, scaling_round.may_act, sizes)
        return round_decision(
            snapshot, self.pace, scaling_round, sizes, reason, need(snapshot, proposal, changed), cores
        )

    def propose(self, snapshot: ClusterSnapshot) -> ScalingProposal:
        """Return the requirement of every task, whether or not its application is due."""
        tasks, edges = snapshot.tasks, snapshot.edges
        rates = task_rates(snapshot)
        ratios = output_ratios(snapshot, rates.rate_in)
        target_in = propagate(source_targets(snapshot), ratios, edges.producer, edges.consumer)
        with np.errstate(divide="ignore", invalid="ignore"):
            instances = instances_needed(target_in, rates.true_rate, rates.parallelism)
        # Of a task that must take nothing and took nothing there is nothing to say: it stays as it is.
        idle = (target_in == 0) & np.isnan(rates.true_rate) & (rates.rate_in == 0)
        propagated = idle if self.scales_sources else idle | tasks.is_source
        missing = np.isnan(target_in) | (np.isnan(instances) & ~propagated)
        if self.band is not None:
            missing |= self.band.unmeasured(snapshot, rates)
        wanted = np.where(propagated | missing, rates.parallelism, optimal_parallelism(instances, self.factor))
        wanted = np.where(propagated, wanted, self._corrected(snapshot, rates, target_in, wanted))
        most = np.where(tasks.is_keyed, tasks.key_groups.astype(np.float64), np.inf)
        return ScalingProposal(rates, target_in, instances, np.minimum(wanted, most), missing, wanted > most)

    def left_band(self, snapshot: ClusterSnapshot, proposal: ScalingProposal) -> Bools:
        """Return the applications that left the band in the direction of the proposal."""
        assert self.band is not None, "only with a band"
        grows = proposal.parallelism > proposal.rates.parallelism
        return self.band.left_by(snapshot, proposal.rates, grows, proposal.parallelism < proposal.rates.parallelism)

    def cores(
        self, snapshot: ClusterSnapshot, proposal: ScalingProposal, may_act: Bools, sizes: Sequence[TaskSize]
    ) -> tuple[CoreNeed, ...]:
        """Return the cores to be asked for, where tasks come to these sizes."""
        if self.cores_margin == float("inf"):
            return ()
        short = short_applications(snapshot, proposal.rates, proposal.target_in)
        loads = core_loads(snapshot, proposal.instances)
        return core_needs(loads, sizes, may_act & short, self.cores_margin)

    def _corrected(self, snapshot: ClusterSnapshot, rates: TaskRates, target_in: Floats, wanted: Floats) -> Floats:
        """Return the parallelism, times target rate / observed rate where nothing else explains the shortage."""
        if self.target_rate_ratio == float("inf"):
            return wanted
        tasks = snapshot.tasks
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(tasks.is_source & (rates.rate_in > 0), target_in / rates.rate_in, 0.0)
        largest = np.zeros(len(snapshot.applications))
        np.fmax.at(largest, tasks.application, ratio)
        grows = any_by(tasks.application, wanted > rates.parallelism, len(largest))
        factor = np.where(~grows & (largest > self.target_rate_ratio), largest, 1.0)[tasks.application]
        return np.ceil(wanted * factor * (1 - ROUNDING))


def significant(snapshot: ClusterSnapshot, proposal: ScalingProposal, factor: float, margin: float) -> Bools:
    """Return the applications in which a task grows by an instance, or shrinks by two, or by one with room to spare."""
    change = proposal.parallelism - proposal.rates.parallelism
    enough = (change >= 1) | (change <= -2)
    if margin < float("inf"):
        enough |= (change == -1) & ((1 + factor) * (1 + margin) * proposal.instances <= proposal.parallelism)
    return any_by(snapshot.tasks.application, enough, len(snapshot.applications))


def need(snapshot: ClusterSnapshot, proposal: ScalingProposal, changed: Bools) -> dict[str, float]:
    """Return the figures of a decision: cores required (sum of x_i, not rounded), and x_i of the tasks that change."""
    tasks = snapshot.tasks
    concerned = np.unique(tasks.application[changed])
    inside = np.isin(tasks.application, concerned)
    figures = {"cores": float(np.nansum(np.where(inside, proposal.instances, 0.0)))} if len(concerned) else {}
    for task in np.flatnonzero(changed):
        name = f"{snapshot.applications.name[tasks.application[task]]}/{tasks.name[task]}"
        figures[f"{name} instances"] = float(proposal.instances[task])
    return figures
