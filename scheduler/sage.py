"""Sage: sizes applications by rules in an order of priority, one resource of an application at a time (Sage, 4).

Memory comes before cores and cores before parallelism, because a starved heap shows as CPU and as backlog. Run by
``penstock decide`` and by the simulated cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.plan import ApplicationSize, Decision, NoChange, RescalePlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.growing import ThreadsUp
from penstock.scheduler.looks import Look, look
from penstock.scheduler.observations import METRICS, History, Observed, known
from penstock.scheduler.remote_guard import GUARDS, REMEMBERS, normal, stays_slow
from penstock.scheduler.sizing import RULES
from penstock.scheduler.sizing_rule import Limits, Proposal, Resource, Rule

_ALLOCATED = {Resource.HEAP: "heap", Resource.MEMORY: "memory", Resource.CORES: "cores", Resource.THREADS: "threads"}
TRIGGERS = ("bound", "rising")


@dataclass(frozen=True, slots=True, eq=False)
class Remembered:
    """Of each resource (row) of each application (column): when it was last asked to change or grow, and from what.

    ``changed_s`` and ``grown_s`` are -inf, ``changed_from`` NaN if it never was. ``normal``: what `remote_guard.normal`
    found as the guard began to block an application, NaN where it does not; ``blocked_s``: when it last did, -inf if it
    never did. ``tried_s``: when rules were last tried.
    """

    history: History
    changed_s: NDArray[np.float64]
    grown_s: NDArray[np.float64]
    changed_from: NDArray[np.float64]
    normal: NDArray[np.float64]
    blocked_s: NDArray[np.float64]
    tried_s: float


@dataclass(frozen=True, slots=True)
class Sage:
    """The policy engine.

    ``stabilisation_s``: nothing is asked of an application for so long after an action, and three times as long while
    its allocation has not changed. A window begins anew when its resource changes, or one that it depends on grows.
    ``guard``: how a backlog is told that a faltering remote service explains, which is no reason for more threads:
    "growth", the paper's "correlation" as it stands, or "none". ``idle_backlog_s``: a backlog worth so many
    seconds of input, which the application's bound of latency allows, counts as none. ``trigger``: what asks for more
    threads: a backlog beyond that "bound", or only one that is "rising" through the window, as the paper has it.
    ``tick_s``: rules are tried no more often; snapshots in between are samples.
    """

    growth: float = 1.5
    margin: float = 0.12
    up: float = 0.92
    down: float = 0.8
    stabilisation_s: float = 300.0
    guard: str = "growth"
    idle_backlog_s: float = 1.0
    trigger: str = "bound"
    tick_s: float = 60.0

    def __post_init__(self) -> None:
        self.limits()
        if self.guard not in GUARDS:
            raise ValueError(f"guard = {self.guard!r} is none of {', '.join(GUARDS)}")
        if self.trigger not in TRIGGERS:
            raise ValueError(f"trigger = {self.trigger!r} is none of {', '.join(TRIGGERS)}")
        if not 0 < self.tick_s <= ThreadsUp.window_s / 3:
            raise ValueError(f"tick_s is above 0, at most {ThreadsUp.window_s / 3:g}, not {self.tick_s}")

    def limits(self) -> Limits:
        """Return the bounds that rules share.

        Raises:
            ValueError: with these, sizes would go up and down for ever.
        """
        return Limits(
            growth=self.growth,
            margin=self.margin,
            up=self.up,
            down=self.down,
            idle_backlog_s=self.idle_backlog_s,
            settle_s=self.stabilisation_s,
            only_rising=self.trigger == "rising",
        )

    def rules(self) -> Sequence[Rule]:
        """Return the rules by priority, the first first."""
        return RULES

    def wait_s(self) -> float:
        """Return for how long nothing is asked of an application after an action."""
        return self.stabilisation_s

    def start(self) -> Remembered:
        """Remember nothing."""
        none = np.empty((len(Resource), 0))
        return Remembered(History.empty(), none, none, none, np.empty((3, 0)), np.empty((1, 0)), -np.inf)

    def decide(self, snapshot: ClusterSnapshot, memory: Remembered) -> tuple[Decision, Remembered]:
        """Return what changes; rules are tried by priority, and one rests where what it sees is changed by another."""
        rules = self.rules()
        keep_s = max(max(rule.window_s for rule in rules), 4 * ThreadsUp.window_s)
        history = memory.history.after(snapshot, keep_s)
        changed_s = _moved(memory, history, memory.changed_s, -np.inf)
        grown_s = _moved(memory, history, memory.grown_s, -np.inf)
        changed_from = _moved(memory, history, memory.changed_from, np.nan)
        usual = _moved(memory, history, memory.normal, np.nan)
        blocked_s = _moved(memory, history, memory.blocked_s, -np.inf)
        is_tick = snapshot.time_s - memory.tried_s >= self.tick_s - snapshot.window_s / 2
        tried_s = snapshot.time_s if is_tick else memory.tried_s
        after = Remembered(history, changed_s, grown_s, changed_from, usual, blocked_s, tried_s)
        if not len(history.names):
            return NoChange("there are no applications"), after
        if not is_tick:
            return NoChange("a sample; rules are tried at the next tick"), after
        given = np.stack([getattr(history.windows, _ALLOCATED[resource])[-1] for resource in Resource])
        since_s = snapshot.time_s - changed_s
        in_flight = (given == changed_from) & (since_s < 3 * self.stabilisation_s)
        free = (since_s.min(axis=0) >= self.wait_s()) & ~in_flight.any(axis=0)
        sizes, reasons, missing = [], [], {}
        whole_s = snapshot.time_s - history.first_s + snapshot.window_s
        heap = given[Resource.HEAP].copy()
        fired = np.zeros(given.shape, np.bool_)
        for rule in rules:
            found, whole, nowhere = self._proposed(rule, history, snapshot, heap, blocked_s)
            if nowhere:
                missing[rule.name] = nowhere
                continue
            begin_s = grown_s[list(rule.after)].max(axis=0, initial=-np.inf)
            begin_s = np.maximum(begin_s, changed_s[rule.resource]) if rule.renews else begin_s
            ready = free & (np.minimum(snapshot.time_s - begin_s, whole_s) >= rule.window_s)
            ready &= ~fired[list({rule.resource, *rule.rests_on})].any(axis=0)
            if rule.rides:
                ready &= fired.any(axis=0)
            fires = ready & whole & found.fires
            if isinstance(rule, ThreadsUp):
                ticks = look(history, snapshot, keep_s, self.tick_s).ticks
                each_s = max(self.tick_s, snapshot.window_s)
                blocked = fires & self._guarded(ticks, max(1, round(ThreadsUp.window_s / each_s)), usual, fires)
                blocked_s[0, blocked] = snapshot.time_s
                fires &= ~blocked
            # A higher rule that cannot tell yet keeps lower ones from acting.
            free &= whole | ~ready
            fired[rule.resource] |= fires
            if rule.resource is Resource.HEAP:
                heap = np.where(fires, found.value, heap)
            for place in np.flatnonzero(fires).tolist():
                value = float(found.value[place])
                sizes.append(_size(place, rule.resource, value))
                before = float(given[rule.resource, place])
                reasons.append(f"{history.names[place]}: {rule.name}, {before:.6g} -> {value:.6g}")
                changed_s[rule.resource, place] = snapshot.time_s
                changed_from[rule.resource, place] = before
                if value > before:
                    grown_s[rule.resource, place] = snapshot.time_s
        return _decision(sizes, reasons, missing), after

    def _proposed(
        self, rule: Rule, history: History, snapshot: ClusterSnapshot, heap: Floats, blocked_s: Floats
    ) -> tuple[Proposal, Bools, tuple[str, ...]]:
        """Return what a rule proposes, for which applications it could tell, and the figures that nobody has.

        It looks as far back as it may; where figures are missing there, as far as it must.
        """

        def told(seconds: float) -> tuple[Proposal, Bools, tuple[str, ...]]:
            seen = replace(look(history, snapshot, seconds, self.tick_s), heap=heap)
            if isinstance(rule, ThreadsUp):
                # What was once put down to a service stays so when the service is well again.
                seen = replace(seen, explained=history.time_s[-len(seen.samples.backlog) :, np.newaxis] <= blocked_s)
            whole, nowhere = known(seen.ticks, rule.needs)
            return rule.propose(_of(seen, whole), self.limits()), whole, nowhere

        found, whole, nowhere = told(rule.most_s)
        if whole.all() or rule.most_s <= rule.window_s:
            return found, whole, nowhere
        near, is_near, nowhere = told(rule.window_s)
        fires, value = np.where(whole, found.fires, near.fires), np.where(whole, found.value, near.value)
        return Proposal(fires, value), np.asarray(whole | is_near, np.bool_), nowhere

    def _guarded(self, windows: Observed, ticks: int, usual: NDArray[np.float64], fires: Bools) -> Bools:
        """Return for which applications the guard blocks; in ``usual`` what is normal there begins and ends."""
        slow = stays_slow(windows, ticks, usual)
        usual[:, ~slow] = np.nan
        if not (fires & ~slow).any():
            return slow
        blocked = GUARDS[self.guard](windows, ticks)
        if self.guard in REMEMBERS:
            begins = fires & blocked & ~slow
            usual[:, begins] = normal(windows, ticks)[:, begins]
        return np.asarray(blocked | slow, np.bool_)


def _of(seen: Look, whole: Bools) -> Look:
    """Return the window with harmless figures where some are missing: what is proposed there does not count."""
    if whole.all():
        return seen
    return replace(seen, samples=_filled(seen.samples, whole), ticks=_filled(seen.ticks, whole))


def _filled(window: Observed, whole: Bools) -> Observed:
    return Observed(**{name: np.where(whole, getattr(window, name), 1.0) for name in METRICS})


def _moved(memory: Remembered, history: History, values: NDArray[np.float64], new: float) -> NDArray[np.float64]:
    """Return a copy of values by application as the applications are now."""
    places = {name: place for place, name in enumerate(memory.history.names)}
    moved = np.full((len(values), len(history.names)), new)
    for place, name in enumerate(history.names):
        if name in places:
            moved[:, place] = values[:, places[name]]
    return moved


def _size(place: int, resource: Resource, value: float) -> ApplicationSize:
    if resource is Resource.HEAP:
        return ApplicationSize(place, heap_bytes=value)
    if resource is Resource.MEMORY:
        return ApplicationSize(place, memory_bytes=value)
    if resource is Resource.CORES:
        return ApplicationSize(place, cores=value)
    return ApplicationSize(place, threads=int(value))


def _decision(sizes: list[ApplicationSize], reasons: list[str], missing: dict[str, tuple[str, ...]]) -> Decision:
    if sizes:
        order = sorted(range(len(sizes)), key=lambda place: sizes[place].application)
        return RescalePlan("; ".join(reasons[place] for place in order), applications=tuple(sizes[p] for p in order))
    if missing:
        lacking = sorted({name for names in missing.values() for name in names})
        return NoChange(f"not measured: {', '.join(lacking)}; the other rules ask for nothing")
    return NoChange("no rule asks for anything")
