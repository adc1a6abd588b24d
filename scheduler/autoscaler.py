"""Flink's autoscaler: DS2 with a catch-up rate, bounds, delayed scale-down (docs/design/papers/justin-ds2.md 2).

A rival of `ds2` and `justin` in the benchmarks; run by `penstock decide` like them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.autoscaler_rules import (
    aligned,
    capacity,
    is_ineffective,
    new_parallelism,
    outside,
    scale_factor,
    scaling_coefficient,
    true_rate,
)
from penstock.scheduler.propagation import propagate
from penstock.scheduler.scaling_round import decided, open_round
from penstock.scheduler.true_rates import NS_PER_S, TaskRates, or_nan, output_ratios, source_targets, sum_by, task_rates
from penstock.scheduler.turns import Pace, Turns


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of a task.

    ``observed``: parallelism and true rate at past actions. ``down_since_s``: when fewer instances were first proposed
    and none more since, ``down_most`` the most of those proposals. ``before`` and ``expected``: true rate before the
    last scale-up, and what it should have become. ``catching_up``: rates of a source while it caught up.
    """

    observed: tuple[tuple[int, float], ...] = ()
    down_since_s: float | None = None
    down_most: int = 0
    before: float | None = None
    expected: float | None = None
    catching_up: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AutoscalerMemory:
    """Turns by application, and the past of tasks by the names of application and task."""

    turns: Turns = field(default_factory=dict)
    past: Mapping[tuple[str, str], Past] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Needs:
    """By task: what it can take, must take, adds for its backlog, and which are blind."""

    rates: TaskRates
    true_rate: Floats
    target: Floats
    catch_up: Floats
    lag_s: Floats
    missing: Bools


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """Flink's rules, at its defaults.

    ``utilisation`` +- ``boundary``: the band. ``backlog_s``: a source with more seconds of input waiting only lets its
    application grow. ``gain_least`` counts if ``detects_ineffective``; ``learns_scaling`` divides by the observed
    coefficient. ``gc_most``: part of the time; above it nothing is scaled.
    """

    pace: Pace = Pace(interval_s=900.0, warm_up_s=300.0)
    utilisation: float = 0.7
    boundary: float = 0.3
    most_down: float = 0.6
    most_up: float = 100_000.0
    parallelism_most: int = 200
    restart_s: float = 300.0
    catch_up_s: float = 1800.0
    scale_down_wait_s: float = 3600.0
    backlog_s: float = 300.0
    catching_up_s: float = 30.0
    trust_observed: float = 1.15
    detects_ineffective: bool = False
    gain_least: float = 0.1
    learns_scaling: bool = False
    gc_most: float = 1.0
    history: int = 3

    def __post_init__(self) -> None:
        if not (0 < self.utilisation <= 1 and self.boundary >= 0 and 0 < self.most_down < 1 and self.catch_up_s > 0):
            raise ValueError("utilisation is in (0, 1], most_down in (0, 1), catching up takes time")

    def start(self) -> AutoscalerMemory:
        """Return that nothing was seen yet."""
        return AutoscalerMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: AutoscalerMemory) -> tuple[Decision, AutoscalerMemory]:
        """Scale the applications whose turn it is and of which a task that would change is outside of its band."""
        of, names = snapshot.tasks.application, _names(snapshot)
        refused = _refused(snapshot)
        past = [_not_done(memory.past.get(name, Past()), "/".join(name) in refused) for name in names]
        needs = self._needs(snapshot, past)
        opened = open_round(snapshot, self.pace, memory.turns, needs.rates, needs.missing)
        looked = (opened.may_act & ~self._collects(snapshot))[of]
        past = [self._caught_up(one, needs, task) if opened.due[of[task]] else one for task, one in enumerate(past)]
        wanted = self._wanted(snapshot, needs, past)
        wanted, past = self._delayed(snapshot.time_s, needs, wanted, past, looked)
        changed = looked & (wanted != needs.rates.parallelism)
        acts = np.zeros(len(snapshot.applications), np.bool_)
        np.logical_or.at(acts, of, changed & self._outside(snapshot, needs))
        changed &= acts[of]
        sizes = []
        for task in np.flatnonzero(changed).tolist():
            sizes.append(TaskSize(task, int(wanted[task])))
            past[task] = self._after(past[task], needs, task, float(wanted[task]))
        numbers = {f"{'/'.join(names[size.task])} true_rate": float(needs.true_rate[size.task]) for size in sizes}
        decision, turns = decided(snapshot, self.pace, opened, sizes, "true rates are outside of their band", numbers)
        kept = {name: one for name, one in zip(names, past, strict=True) if one != Past()}
        return decision, AutoscalerMemory(turns, kept)

    def _needs(self, snapshot: ClusterSnapshot, past: list[Past]) -> _Needs:
        instances, tasks, edges = snapshot.instances, snapshot.tasks, snapshot.edges
        rates, rows = task_rates(snapshot), len(snapshot.instances)
        useful = np.full(len(tasks), -np.inf)
        share_ns = or_nan(instances.busy_ns, rows) + or_nan(instances.remote_wait_ns, rows)
        with np.errstate(invalid="ignore"):
            np.maximum.at(useful, instances.task, share_ns / (snapshot.window_s * NS_PER_S))
        rate = true_rate(rates.rate_in, useful)
        observed = np.array([np.mean(one.catching_up) if len(one.catching_up) >= 2 else np.inf for one in past])
        # Busy time of sources is not to be relied on (FLINK-33306): what they took while they caught up is.
        rate = np.where(rate > self.trust_observed * observed, observed, rate)
        lag = np.where(tasks.is_source, _lag_rows(snapshot), 0.0)
        ratios = output_ratios(snapshot, rates.rate_in)
        target = propagate(source_targets(snapshot), ratios, edges.producer, edges.consumer)
        catch_up = propagate(lag / self.catch_up_s, ratios, edges.producer, edges.consumer)
        missing = np.isnan(rate) | np.isnan(target) | np.isnan(catch_up)
        with np.errstate(divide="ignore", invalid="ignore"):
            lag_s = np.where(lag > 0, lag / target, 0.0)
        return _Needs(rates, rate, target, catch_up, lag_s, missing)

    def _caught_up(self, past: Past, needs: _Needs, task: int) -> Past:
        """Return the past with one more rate of a source that has much to catch up: R / (1 - part of time held up)."""
        if not needs.lag_s[task] >= self.catching_up_s:
            return past
        free = 1 - needs.rates.output_wait_share[task]
        if not free > 0:
            return past
        seen = (*past.catching_up, float(needs.rates.rate_in[task] / free))
        return replace(past, catching_up=seen[-self.history :])

    def _wanted(self, snapshot: ClusterSnapshot, needs: _Needs, past: list[Past]) -> Floats:
        tasks, rates = snapshot.tasks, needs.rates
        alpha = np.array([scaling_coefficient(one.observed) if self.learns_scaling else 1.0 for one in past])
        room = capacity(needs.target, needs.catch_up, self.utilisation, self.restart_s, self.catch_up_s)
        factor = scale_factor(room, needs.true_rate, alpha, self.most_down, self.most_up)
        factor = np.where(needs.missing, 1.0, factor)
        groups = tasks.key_groups.astype(np.float64)
        most = np.where(tasks.is_keyed, np.minimum(groups, self.parallelism_most), float(self.parallelism_most))
        wanted = new_parallelism(factor, rates.parallelism, 1, most)
        keyed = np.flatnonzero(tasks.is_keyed & (wanted != rates.parallelism))
        wanted[keyed] = aligned(wanted[keyed], groups[keyed], most[keyed])
        if self.detects_ineffective:
            for task in np.flatnonzero(wanted > rates.parallelism).tolist():
                one = past[task]
                if one.before is None or one.expected is None:
                    continue
                if is_ineffective(one.before, one.expected, float(needs.true_rate[task]), self.gain_least):
                    wanted[task] = rates.parallelism[task]
        return wanted

    def _delayed(
        self, time_s: float, needs: _Needs, wanted: Floats, past: list[Past], looked: Bools
    ) -> tuple[Floats, list[Past]]:
        """Return what is done now: fewer instances only after a wait, and then the most that were proposed in it."""
        now, after = wanted.copy(), list(past)
        for task in np.flatnonzero(looked).tolist():
            one = past[task]
            if wanted[task] >= needs.rates.parallelism[task]:
                after[task] = one if one.down_since_s is None else replace(one, down_since_s=None, down_most=0)
                continue
            since = time_s if one.down_since_s is None else one.down_since_s
            most = max(one.down_most, int(wanted[task]))
            after[task] = replace(one, down_since_s=since, down_most=most)
            now[task] = most if time_s - since >= self.scale_down_wait_s else needs.rates.parallelism[task]
        return now, after

    def _outside(self, snapshot: ClusterSnapshot, needs: _Needs) -> Bools:
        """Return the tasks outside of their band; with a long backlog none is too idle (FLINK-31318)."""
        of = snapshot.tasks.application
        behind = np.zeros(len(snapshot.applications), np.bool_)
        np.logical_or.at(behind, of, needs.lag_s > self.backlog_s)
        high = np.where(behind[of], 1.0, min(1.0, self.utilisation + self.boundary))
        low = max(0.0, self.utilisation - self.boundary)
        most_busy = capacity(needs.target, needs.catch_up, high, 0.0, self.catch_up_s)
        least_busy = capacity(needs.target, needs.catch_up, low, self.restart_s, self.catch_up_s)
        return outside(needs.true_rate, most_busy, np.where(behind[of], np.inf, least_busy))

    def _after(self, past: Past, needs: _Needs, task: int, wanted: float) -> Past:
        parallelism, rate = float(needs.rates.parallelism[task]), float(needs.true_rate[task])
        seen = (*past.observed, (int(parallelism), rate))[-self.history :]
        if wanted <= parallelism or not np.isfinite(rate):
            return Past(observed=seen if np.isfinite(rate) else past.observed)
        return Past(observed=seen, before=rate, expected=rate * wanted / parallelism)

    def _collects(self, snapshot: ClusterSnapshot) -> Bools:
        """Return the applications that spend too much of their time on collecting garbage; unmeasured: none."""
        gc_ns = or_nan(snapshot.applications.gc_ns, len(snapshot.applications))
        return np.asarray(gc_ns / (snapshot.window_s * NS_PER_S) > self.gc_most)


def _refused(snapshot: ClusterSnapshot) -> frozenset[str]:
    """Return the tasks, with their applications' names, whose new parallelism was refused, or cut."""
    rows = zip(snapshot.refusals.subject, snapshot.refusals.what, strict=True)
    return frozenset(subject for subject, what in rows if what == "parallelism")


def _not_done(past: Past, is_refused: bool) -> Past:
    """Return a past that expects nothing of a scale-up that was not granted."""
    return replace(past, before=None, expected=None) if is_refused else past


def _lag_rows(snapshot: ClusterSnapshot) -> Floats:
    """Return the rows that wait for every source; 0 for one without partitions."""
    partitions = snapshot.partitions
    lag = or_nan(partitions.end_offset, len(partitions)) - or_nan(partitions.position, len(partitions))
    return sum_by(snapshot.instances.task[partitions.instance], lag, len(snapshot.tasks))


def _names(snapshot: ClusterSnapshot) -> list[tuple[str, str]]:
    applications, tasks = snapshot.applications.name, snapshot.tasks
    return [(applications[of], name) for of, name in zip(tasks.application.tolist(), tasks.name, strict=True)]
