"""Justin: more memory for a task before more instances, where its state is slow to reach (Justin, Algorithm 1).

Literal but for the repairs of docs/design/papers/justin-ds2.md 4, each a parameter that can be turned off. Run by
`penstock decide`; `memory_choice` is our own policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.model.memory_levels import BASE_BYTES, MAX_LEVEL, managed_bytes
from penstock.model.plan import Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.busy_band import BusyBand
from penstock.scheduler.ds2 import Ds2, Proposal, need
from penstock.scheduler.scaling_round import decided, open_round
from penstock.scheduler.state_access import StateAccess, state_access
from penstock.scheduler.turns import Pace, Turns


def justins_ds2() -> Ds2:
    """Return the DS2 that Justin starts from: windows of 2 min, 1 min to settle, 50% busy, between 20% and 80%."""
    return Ds2(Pace(interval_s=120.0, warm_up_s=60.0), factor=1.0, band=BusyBand(0.2, 0.8))


@dataclass(frozen=True, slots=True)
class Past:
    """What the last decision about a stateful task left.

    ``raised``: it was given more memory (v), up to ``level``. ``hit_rate`` and ``latency_ms`` were measured before it.
    ``tabu``: for how many more decisions it is not raised.
    """

    raised: bool = False
    level: int = 0
    hit_rate: float = 1.0
    latency_ms: float = 0.0
    tabu: int = 0


@dataclass(frozen=True, slots=True)
class JustinMemory:
    """Turns by application, and the past of stateful tasks by the names of application and task."""

    turns: Turns = field(default_factory=dict)
    past: Mapping[tuple[str, str], Past] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Justin:
    """Algorithm 1.

    ``hit_rate_least`` (d_theta) and ``latency_most_ms`` (d_tau) tell that memory may help; levels are below
    ``max_level`` (3 as the text says, 2 as the artifact does). Repairs: ``hysteresis`` (h; 0 as printed),
    ``tabu_decisions`` (0 as printed) and ``guards_scale_down`` (as printed a task that shrinks is looked at too).
    """

    ds2: Ds2 = field(default_factory=justins_ds2)
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
        """Return that nothing was decided yet."""
        return JustinMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: JustinMemory) -> tuple[Decision, JustinMemory]:
        """Size the applications that DS2's trigger names."""
        proposal, access = self.ds2.propose(snapshot), state_access(snapshot)
        grows = proposal.parallelism > proposal.rates.parallelism
        blind = snapshot.tasks.is_stateful & grows & (np.isnan(access.hit_rate) | np.isnan(access.latency_ms))
        opened = open_round(snapshot, self.ds2.pace, memory.turns, proposal.rates, proposal.missing | blind)
        acts = opened.may_act & self.ds2.left_band(snapshot, proposal)
        there = {_name(snapshot, task) for task in range(len(snapshot.tasks))}
        past, sizes = {name: one for name, one in memory.past.items() if name in there}, []
        for task in np.flatnonzero(acts[snapshot.tasks.application]).tolist():
            size, then = self._size(snapshot, proposal, access, task, memory)
            sizes += [size] if size is not None else []
            if then is not None:
                past[_name(snapshot, task)] = then
        changed = np.zeros(len(snapshot.tasks), np.bool_)
        changed[[size.task for size in sizes]] = True
        numbers = need(snapshot, proposal, changed) | _access_figures(snapshot, access, changed)
        decision, turns = decided(
            snapshot, self.ds2.pace, opened, sizes, "busy time left its band; memory before instances", numbers
        )
        return decision, JustinMemory(turns, past)

    def _size(
        self, snapshot: ClusterSnapshot, proposal: Proposal, access: StateAccess, task: int, memory: JustinMemory
    ) -> tuple[TaskSize | None, Past | None]:
        """Return what a task is given, None if it stays as it is, and what to remember of it."""
        was, wanted = int(proposal.rates.parallelism[task]), int(proposal.parallelism[task])
        if not snapshot.tasks.is_stateful[task]:
            # Never told from a hit rate of 0: that is what an empty cache has.
            has_memory = access.managed_bytes[task] != 0
            return (TaskSize(task, wanted, managed_bytes=0) if has_memory or wanted != was else None), None
        level = int(snapshot.tasks.memory_level[task])
        theta, tau = float(access.hit_rate[task]), float(access.latency_ms[task])
        prev = memory.past.get(_name(snapshot, task), Past())
        tabu = max(0, prev.tabu - 1)
        if wanted == was or (wanted < was and self.guards_scale_down):
            return self._given(task, was, wanted, level, level), Past(False, level, theta, tau, tabu)
        if prev.raised and prev.level == level:
            if not self._improved(theta, tau, prev):
                return self._given(task, was, wanted, level, level - 1), Past(
                    False, level - 1, theta, tau, self.tabu_decisions
                )
            raises = level + 1 < self.max_level
        else:
            slow = theta < self.hit_rate_least or tau > self.latency_most_ms
            raises = slow and level + 1 < self.max_level and prev.tabu == 0
        if raises:
            return self._given(task, was, was, level, level + 1), Past(True, level + 1, theta, tau, tabu)
        return self._given(task, was, wanted, level, level), Past(False, level, theta, tau, tabu)

    def _improved(self, theta: float, tau: float, prev: Past) -> bool:
        """Say whether theta > theta' (1 + h) or tau < tau' (1 - h) (Algorithm 1, line 8, and its footnote).

        theta, theta'  hit rates in [0, 1] now and before memory was raised
        tau, tau'      latencies of a state access (ms), likewise
        h              hysteresis in [0, 1); 0 as printed
        """
        h = self.hysteresis
        return theta > prev.hit_rate * (1 + h) or tau < prev.latency_ms * (1 - h)

    def _given(self, task: int, was: int, parallelism: int, level: int, new_level: int) -> TaskSize | None:
        if parallelism == was and new_level == level:
            return None
        return TaskSize(task, parallelism, new_level, managed_bytes(new_level, self.base_bytes))


def _name(snapshot: ClusterSnapshot, task: int) -> tuple[str, str]:
    return snapshot.applications.name[snapshot.tasks.application[task]], snapshot.tasks.name[task]


def _access_figures(snapshot: ClusterSnapshot, access: StateAccess, changed: np.ndarray) -> dict[str, float]:
    figures = {}
    for task in np.flatnonzero(changed & snapshot.tasks.is_stateful).tolist():
        name = "/".join(_name(snapshot, task))
        figures[f"{name} hit_rate"] = float(access.hit_rate[task])
        figures[f"{name} latency_ms"] = float(access.latency_ms[task])
    return figures
