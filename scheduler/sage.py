"""Sage: sizes applications by rules in order of priority, one resource of an application at a time (Sage, 4).

Memory comes before cores and cores before parallelism, because a starved heap shows as CPU and as backlog. Run by
``penstock decide``, by the simulated cluster, and by heads of jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.plan import ApplicationSize, Decision, NoChange, RescalePlan, not_measured
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.growth_rules import ThreadsUp
from penstock.scheduler.observations import METRICS, ApplicationMetrics, MetricHistory, complete_figures
from penstock.scheduler.remote_guard import GUARDS, STICKY_GUARDS, service_baseline, service_stays_slow
from penstock.scheduler.rule_window import RuleWindow, rule_window
from penstock.scheduler.size_changes import SizeChanges
from penstock.scheduler.sizing import RULES
from penstock.scheduler.sizing_rule import Resource, Rule, RuleLimits, SizingProposal

_ALLOCATED = {Resource.HEAP: "heap", Resource.MEMORY: "memory", Resource.CORES: "cores", Resource.THREADS: "threads"}
_SIZED = _ALLOCATED | {Resource.HEAP: "heap_bytes", Resource.MEMORY: "memory_bytes"}
TRIGGERS = ("bound", "rising")
CATCH_UP_S = RuleLimits().catch_up_s


@dataclass(frozen=True, slots=True, eq=False)
class SageMemory:
    """What was seen and changed, and the guard's baselines; columns are applications.

    ``changes`` as of the last decision, ``before`` as they were when it was made. ``service_baseline``: what
    `remote_guard.service_baseline` found when the guard began to block an application, NaN where it does not;
    ``blocked_s``: when it last blocked, -inf if never. ``tried_s``: when rules were last evaluated.
    """

    history: MetricHistory
    changes: SizeChanges
    before: SizeChanges
    service_baseline: NDArray[np.float64]
    blocked_s: NDArray[np.float64]
    tried_s: float


@dataclass(frozen=True, slots=True)
class Sage:
    """The policy engine.

    ``stabilisation_s``: the wait after an action on an application, three times as long while its allocation has not
    changed. A window restarts when its resource changes, or one that it depends on grows. ``guard``: the test for
    backlogs that a faltering remote service explains, which do not justify more threads: "growth", the paper's
    "correlation" as printed, or "none". ``idle_backlog_s``: a backlog worth this many seconds of input, which the
    application's latency bound allows, counts as none. ``trigger``: the reason for more threads: a backlog beyond that
    "bound", or only one that is "rising" throughout the window, as in the paper. ``tick_s``: the least time between
    evaluations of the rules; snapshots in between are samples. ``windows``: the length of ticks, windows, the wait, and
    the time in which a backlog is to be made up for, as a part of what they are otherwise: for jobs whose load says in
    seconds what others say in minutes.

    A resource of which limits granted nothing more counts as full, and keeps no rule behind it waiting, for three times
    the wait, or until less of it is in use.
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
    windows: float = 1.0

    def __post_init__(self) -> None:
        self.limits()
        if self.guard not in GUARDS:
            raise ValueError(f"guard = {self.guard!r} is none of {', '.join(GUARDS)}")
        if self.trigger not in TRIGGERS:
            raise ValueError(f"trigger = {self.trigger!r} is none of {', '.join(TRIGGERS)}")
        if not self.windows > 0:
            raise ValueError(f"windows is above 0, not {self.windows}")
        if not 0 < self.tick_s <= ThreadsUp.window_s / 3:
            raise ValueError(f"tick_s is above 0, at most {ThreadsUp.window_s / 3:g}, not {self.tick_s}")

    def limits(self) -> RuleLimits:
        """Return the limits that all rules share.

        Raises:
            ValueError: with these parameters sizes would oscillate.
        """
        return RuleLimits(
            growth=self.growth,
            margin=self.margin,
            up=self.up,
            down=self.down,
            idle_backlog_s=self.idle_backlog_s,
            settle_s=self._length_s(self.stabilisation_s),
            catch_up_s=self._length_s(CATCH_UP_S),
            only_rising=self.trigger == "rising",
            windows=self.windows,
        )

    def rules(self) -> Sequence[Rule]:
        """Return the rules, highest priority first."""
        return RULES

    def wait_s(self) -> float:
        """Return the wait after an action on an application."""
        return self._length_s(self.stabilisation_s)

    def _length_s(self, seconds: float) -> float:
        return self.windows * seconds

    def start(self) -> SageMemory:
        """Return the empty memory."""
        none = SizeChanges.none()
        return SageMemory(MetricHistory.empty(), none, none, np.empty((3, 0)), np.empty((1, 0)), -np.inf)

    def decide(self, snapshot: ClusterSnapshot, memory: SageMemory) -> tuple[Decision, SageMemory]:
        """Return the changes; rules are evaluated by priority, and one rests where another changes its evidence."""
        rules = self.rules()
        keep_s = self._length_s(max(max(rule.window_s for rule in rules), 4 * ThreadsUp.window_s))
        history = memory.history.with_snapshot(snapshot, keep_s)
        allocated = np.stack([getattr(history.windows, _ALLOCATED[resource])[-1] for resource in Resource])
        changes, before = (
            each.of_applications(memory.history.names, history.names) for each in (memory.changes, memory.before)
        )
        changes = changes.without_refused(before, snapshot, allocated).with_room(allocated)
        baseline = _by_present_application(memory, history, memory.service_baseline, np.nan)
        blocked_s = _by_present_application(memory, history, memory.blocked_s, -np.inf)
        tick_s = self._length_s(self.tick_s)
        is_tick = snapshot.time_s - memory.tried_s >= tick_s - snapshot.window_s / 2
        tried_s = snapshot.time_s if is_tick else memory.tried_s
        if is_tick:
            before, changes = changes, changes.of_applications(history.names, history.names)
        after = SageMemory(history, changes, before, baseline, blocked_s, tried_s)
        if not len(history.names):
            return NoChange("there are no applications"), after
        if not is_tick:
            return NoChange("a sample; rules are tried at the next tick"), after
        since_s, long_s = snapshot.time_s - changes.changed_s, 3 * self._length_s(self.stabilisation_s)
        in_flight = (allocated == changes.changed_from) & (since_s < long_s)
        free = (since_s.min(axis=0) >= self.wait_s()) & ~in_flight.any(axis=0)
        sizes, reasons, missing = [], [], {}
        observed_s = snapshot.time_s - history.first_s + snapshot.window_s
        heap = allocated[Resource.HEAP].copy()
        fired, nearly = np.zeros((2, *allocated.shape), np.bool_)
        for rule in rules:
            proposal, is_known, unmeasured = self._proposal(rule, history, snapshot, heap, blocked_s)
            if unmeasured:
                missing[rule.name] = unmeasured
                continue
            begin_s = changes.grown_s[list(rule.after)].max(axis=0, initial=-np.inf)
            begin_s = np.maximum(begin_s, changes.changed_s[rule.resource]) if rule.renews else begin_s
            # What was refused has all that it can have, as if it needed no more.
            is_full = changes.at_limit(rule.resource, proposal.value, allocated, snapshot.time_s - long_s)
            due = free & ~is_full & (np.minimum(snapshot.time_s - begin_s, observed_s) >= self._length_s(rule.window_s))
            due &= ~fired[list({rule.resource, *rule.rests_on})].any(axis=0)
            due &= ~nearly[list(rule.rests_on)].any(axis=0)
            if isinstance(rule, ThreadsUp):
                # One late row is enough for it; other rules look at means, which idle time before the first row lowers.
                due &= history.fed_s(snapshot.window_s) >= self._length_s(rule.window_s)
            if rule.rides:
                due &= fired.any(axis=0)
            fires = due & is_known & proposal.fires
            if isinstance(rule, ThreadsUp):
                ticks = rule_window(history, snapshot, keep_s, tick_s).ticks
                span = max(1, round(self._length_s(ThreadsUp.window_s) / max(tick_s, snapshot.window_s)))
                blocked = fires & self._guarded(ticks, span, baseline, fires)
                blocked_s[0, blocked] = snapshot.time_s
                fires &= ~blocked
            # A higher rule that lacks figures keeps lower ones from acting.
            free &= is_known | ~due
            fired[rule.resource] |= fires
            if rule.goes_first:
                nearly[rule.resource] |= free & ~fires & ~is_full & self._asks_now(rule, history, snapshot, heap)
            if rule.resource is Resource.HEAP:
                heap = np.where(fires, proposal.value, heap)
            for place in np.flatnonzero(fires).tolist():
                value = float(proposal.value[place])
                sizes.append(_size(place, rule.resource, value))
                had = float(allocated[rule.resource, place])
                reasons.append(f"{history.names[place]}: {rule.name}, {had:.6g} -> {value:.6g}")
                changes.note(rule.resource, place, had, value, snapshot.time_s)
        return _decision(sizes, reasons, missing), after

    def _proposal(
        self, rule: Rule, history: MetricHistory, snapshot: ClusterSnapshot, heap: Floats, blocked_s: Floats
    ) -> tuple[SizingProposal, Bools, tuple[str, ...]]:
        """Return a rule's proposal, the applications with all of its figures, and the figures that none has.

        It uses the longest window allowed; where figures are missing there, the shortest.
        """

        def over(seconds: float) -> tuple[SizingProposal, Bools, tuple[str, ...]]:
            window = replace(rule_window(history, snapshot, seconds, self._length_s(self.tick_s)), heap=heap)
            if isinstance(rule, ThreadsUp):
                # A backlog once attributed to a service stays so when the service recovers.
                window = replace(
                    window, explained=history.time_s[-len(window.samples.backlog) :, np.newaxis] <= blocked_s
                )
            is_known, unmeasured = complete_figures(window.ticks, rule.needs)
            return rule.propose(_with_harmless_figures(window, is_known), self.limits()), is_known, unmeasured

        longest, is_known, unmeasured = over(self._length_s(rule.most_s))
        if is_known.all() or rule.most_s <= rule.window_s:
            return longest, is_known, unmeasured
        shortest, is_known_short, unmeasured = over(self._length_s(rule.window_s))
        fires, value = (
            np.where(is_known, longest.fires, shortest.fires),
            np.where(is_known, longest.value, shortest.value),
        )
        return SizingProposal(fires, value), np.asarray(is_known | is_known_short, np.bool_), unmeasured

    def _asks_now(self, rule: Rule, history: MetricHistory, snapshot: ClusterSnapshot, heap: Floats) -> Bools:
        """Return the applications for which a rule would fire if its window were the last tick."""
        tick_s = self._length_s(self.tick_s)
        window = replace(rule_window(history, snapshot, tick_s, tick_s), heap=heap)
        is_known, _ = complete_figures(window.ticks, rule.needs)
        return is_known & rule.propose(_with_harmless_figures(window, is_known), self.limits()).fires

    def _guarded(self, windows: ApplicationMetrics, ticks: int, baseline: NDArray[np.float64], fires: Bools) -> Bools:
        """Return the applications that the guard blocks, and update their columns of ``baseline`` in place."""
        slow = service_stays_slow(windows, ticks, baseline)
        baseline[:, ~slow] = np.nan
        if not (fires & ~slow).any():
            return slow
        blocked = GUARDS[self.guard](windows, ticks)
        if self.guard in STICKY_GUARDS:
            begins = fires & blocked & ~slow
            baseline[:, begins] = service_baseline(windows, ticks)[:, begins]
        return np.asarray(blocked | slow, np.bool_)


def _with_harmless_figures(window: RuleWindow, is_known: Bools) -> RuleWindow:
    """Return the window with harmless figures where some are missing; proposals there are ignored."""
    if is_known.all():
        return window
    return replace(window, samples=_filled(window.samples, is_known), ticks=_filled(window.ticks, is_known))


def _filled(window: ApplicationMetrics, is_known: Bools) -> ApplicationMetrics:
    return ApplicationMetrics(**{name: np.where(is_known, getattr(window, name), 1.0) for name in METRICS})


def _by_present_application(
    memory: SageMemory, history: MetricHistory, values: NDArray[np.float64], new: float
) -> NDArray[np.float64]:
    """Return a copy of the values by application, reordered to the present applications."""
    places = {name: place for place, name in enumerate(memory.history.names)}
    aligned = np.full((len(values), len(history.names)), new)
    for place, name in enumerate(history.names):
        if name in places:
            aligned[:, place] = values[:, places[name]]
    return aligned


def _size(place: int, resource: Resource, value: float) -> ApplicationSize:
    changed: dict[str, Any] = {_SIZED[resource]: int(value) if resource is Resource.THREADS else value}
    return ApplicationSize(place, **changed)


def _decision(sizes: list[ApplicationSize], reasons: list[str], missing: dict[str, tuple[str, ...]]) -> Decision:
    if sizes:
        order = sorted(range(len(sizes)), key=lambda place: sizes[place].application)
        return RescalePlan("; ".join(reasons[place] for place in order), applications=tuple(sizes[p] for p in order))
    if missing:
        unmeasured = sorted({name for names in missing.values() for name in names})
        return not_measured(f"{', '.join(unmeasured)}; the other rules ask for nothing")
    return NoChange("no rule asks for anything")
