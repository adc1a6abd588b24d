"""Justin: more memory before more instances for tasks with slow state access (Justin, Algorithm 1).

Literal except for the repairs in docs/design/papers/justin-ds2.md 4, each a parameter that can be turned off. Run by
`penstock decide`; `memory_choice` is our own policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.memory_levels import BASE_BYTES, MAX_LEVEL, bytes_at
from penstock.model.plan import Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.busy_band import BusyBand
from penstock.scheduler.ds2 import Ds2, ScalingProposal, need
from penstock.scheduler.pacing import Pace, PaceStates
from penstock.scheduler.refused_growth import without_memory
from penstock.scheduler.scaling_round import open_round, round_decision
from penstock.scheduler.state_access import StateAccess, state_access


def justin_ds2() -> Ds2:
    """Return Justin's DS2: windows of 2 min, 1 min to settle, a target of 50% busy in a band of 20% to 80%."""
    return Ds2(Pace(interval_s=120.0, warm_up_s=60.0), factor=1.0, band=BusyBand(0.2, 0.8))


FULL_DECISIONS = 3
"""So many decisions after the quota refused a task memory it may have some: others may have given it up."""


@dataclass(frozen=True, slots=True)
class LastDecision:
    """The last decision on a stateful task.

    ``raised``: it was given more memory (v), up to ``level``. ``hit_rate`` and ``latency_ms`` were measured before it.
    ``tabu``: for how many more decisions its memory is not raised.
    """

    raised: bool = False
    level: int = 0
    hit_rate: float = 1.0
    latency_ms: float = 0.0
    tabu: int = 0


@dataclass(frozen=True, slots=True)
class JustinMemory:
    """The policy's memory: pace by application, last decisions by the names of application and task."""

    pace_states: PaceStates = field(default_factory=dict)
    last_decisions: Mapping[tuple[str, str], LastDecision] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Justin:
    """Algorithm 1.

    ``hit_rate_least`` (d_theta) and ``latency_most_ms`` (d_tau) indicate that memory may help; levels are below
    ``max_level`` (3 as the text says, 2 as the artifact does). Repairs: ``hysteresis`` (h; 0 as printed),
    ``tabu_decisions`` (0 as printed) and ``guards_scale_down`` (as printed, tasks that shrink are considered too).
    ``base_bytes``: what an instance has at level 0 whose memory is not known; else a level doubles what it has. To a
    task that was refused memory DS2's parallelism applies, for three decisions.
    """

    ds2: Ds2 = field(default_factory=justin_ds2)
    hit_rate_least: float = 0.80
    latency_most_ms: float = 1.0
    max_level: int = MAX_LEVEL
    base_bytes: int = BASE_BYTES
    hysteresis: float = 0.05
    tabu_decisions: int = 3
    guards_scale_down: bool = True

    def __post_init__(self) -> None:
        if self.ds2.band is None:
            raise ValueError("Justin is called when busy time leaves a band: give its DS2 one")
        if not (self.max_level >= 1 and 0 <= self.hysteresis < 1 and self.tabu_decisions >= 0):
            raise ValueError("there is a level, hysteresis is in [0, 1), a tabu lasts 0 decisions or more")

    def start(self) -> JustinMemory:
        """Return the empty memory."""
        return JustinMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: JustinMemory) -> tuple[Decision, JustinMemory]:
        """Size the applications that DS2's trigger names."""
        proposal, access = self.ds2.propose(snapshot), state_access(snapshot)
        grows = proposal.parallelism > proposal.rates.parallelism
        blind = snapshot.tasks.is_stateful & grows & (np.isnan(access.hit_rate) | np.isnan(access.latency_ms))
        scaling_round = open_round(
            snapshot, self.ds2.pace, memory.pace_states, proposal.rates, proposal.missing | blind
        )
        acts = scaling_round.may_act & self.ds2.left_band(snapshot, proposal)
        names = snapshot.task_names()
        last_decisions, sizes = (
            {name: memory.last_decisions[name] for name in names if name in memory.last_decisions},
            [],
        )
        for name in without_memory(snapshot):
            last = last_decisions.get(name, LastDecision())
            last_decisions[name] = replace(last, raised=False, tabu=max(last.tabu, FULL_DECISIONS))
        for task in np.flatnonzero(acts[snapshot.tasks.application]).tolist():
            last = last_decisions.get(names[task], LastDecision())
            size, last_decision = self._size(snapshot, proposal, access, task, last)
            sizes += [size] if size is not None else []
            if last_decision is not None:
                last_decisions[names[task]] = last_decision
        changed = np.zeros(len(snapshot.tasks), np.bool_)
        changed[[size.task for size in sizes]] = True
        numbers = need(snapshot, proposal, changed) | _access_figures(snapshot, access, changed)
        cores = self.ds2.cores(snapshot, proposal, scaling_round.may_act, sizes)
        reason = "busy time left its band; memory before instances"
        decision, pace_states = round_decision(snapshot, self.ds2.pace, scaling_round, sizes, reason, numbers, cores)
        return decision, JustinMemory(pace_states, last_decisions)

    def _size(
        self, snapshot: ClusterSnapshot, proposal: ScalingProposal, access: StateAccess, task: int, last: LastDecision
    ) -> tuple[TaskSize | None, LastDecision | None]:
        """Return a task's new size, None if unchanged, and the decision to remember."""
        parallelism, target = int(proposal.rates.parallelism[task]), int(proposal.parallelism[task])
        if not snapshot.tasks.is_stateful[task]:
            # Never told from a hit rate of 0: that is what an empty cache has.
            has_memory = access.managed_bytes[task] != 0
            return (TaskSize(task, target, managed_bytes=0) if has_memory or target != parallelism else None), None
        level = int(snapshot.tasks.memory_level[task])
        theta, tau = float(access.hit_rate[task]), float(access.latency_ms[task])
        raises = lowers = False
        if target > parallelism or (target < parallelism and not self.guards_scale_down):
            if last.raised and last.level == level:
                raises = self._improved(theta, tau, last)
                lowers = not raises
            else:
                raises = last.tabu == 0 and (theta < self.hit_rate_least or tau > self.latency_most_ms)
            raises = raises and level + 1 < self.max_level
        new_level = level + raises - lowers
        tabu = self.tabu_decisions if lowers else max(0, last.tabu - 1)
        decision = LastDecision(raises, new_level, theta, tau, tabu)
        if raises:
            target = parallelism
        if target == parallelism and new_level == level:
            return None, decision
        if new_level == level:
            return TaskSize(task, target), decision
        managed = bytes_at(new_level, level, float(access.managed_bytes[task]), self.base_bytes)
        return TaskSize(task, target, new_level, managed), decision

    def _improved(self, theta: float, tau: float, last: LastDecision) -> bool:
        """Return whether theta > theta' (1 + h) or tau < tau' (1 - h) (Algorithm 1, line 8, and its footnote).

        theta, theta'  hit rates in [0, 1] now and before memory was raised
        tau, tau'      latencies of a state access (ms), likewise
        h              hysteresis in [0, 1); 0 as printed
        """
        h = self.hysteresis
        return theta > last.hit_rate * (1 + h) or tau < last.latency_ms * (1 - h)


def _access_figures(snapshot: ClusterSnapshot, access: StateAccess, changed: np.ndarray) -> dict[str, float]:
    figures, names = {}, snapshot.task_names()
    for task in np.flatnonzero(changed & snapshot.tasks.is_stateful).tolist():
        name = "/".join(names[task])
        figures[f"{name} hit_rate"] = float(access.hit_rate[task])
        figures[f"{name} latency_ms"] = float(access.latency_ms[task])
    return figures
