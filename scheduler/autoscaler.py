"""Flink's autoscaler: DS2 with a catch-up rate, bounds, delayed scale-down (docs/design/papers/justin-ds2.md 2).

A baseline for `ds2` and `justin` in the benchmarks; run by `penstock decide` like them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import CoreNeed, Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.autoscaler_rules import (
    aligned_parallelism,
    capacity,
    is_ineffective,
    new_parallelism,
    outside_band,
    scale_factor,
    scaling_coefficient,
    true_rate,
)
from penstock.scheduler.core_needs import core_loads, core_needs, short_applications
from penstock.scheduler.ds2 import instances_needed
from penstock.scheduler.pacing import Pace, PaceStates
from penstock.scheduler.propagation import propagate
from penstock.scheduler.scaling_round import open_round, round_decision
from penstock.scheduler.true_rates import (
    NS_PER_S,
    TaskRates,
    any_by,
    or_nan,
    output_ratios,
    source_targets,
    sum_by,
    task_rates,
)


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """The history of a task.

    ``parallelism``: instances at the last look, 0: there was none. ``observed``: those and the true rate at past
    actions. ``down_since_s``: start of the
    present run of scale-down proposals, ``down_most`` the largest parallelism among them. ``before`` and ``expected``:
    true rate before the last scale-up, and the rate expected of it. ``catching_up``: rates of a source while it caught
    up.
    """

    parallelism: int = 0
    observed: tuple[tuple[int, float], ...] = ()
    down_since_s: float | None = None
    down_most: int = 0
    before: float | None = None
    expected: float | None = None
    catching_up: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AutoscalerMemory:
    """The policy's memory: pace by application, histories by the names of application and task."""

    pace_states: PaceStates = field(default_factory=dict)
    histories: Mapping[tuple[str, str], TaskHistory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Needs:
    """Figures by task: true rate, target rate, extra rate for the backlog, lag, and which tasks lack figures."""

    rates: TaskRates
    true_rate: Floats
    target: Floats
    catch_up: Floats
    lag_s: Floats
    missing: Bools


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """Flink's rules with Flink's defaults.

    ``utilisation`` +- ``boundary``: the band. ``backlog_s``: a source with more seconds of input waiting only lets its
    application grow. ``gain_least`` counts if ``detects_ineffective``; ``learns_scaling`` divides by the observed
    coefficient. ``gc_most``: share of time in garbage collection above which nothing is scaled. ``cores_margin``: as in
    `Ds2`.
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
    cores_margin: float = float("inf")

    def __post_init__(self) -> None:
        if not (0 < self.utilisation <= 1 and self.boundary >= 0 and 0 < self.most_down < 1 and self.catch_up_s > 0):
            raise ValueError("utilisation is in (0, 1], most_down in (0, 1), catching up takes time")

    def start(self) -> AutoscalerMemory:
        """Return the empty memory."""
        return AutoscalerMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: AutoscalerMemory) -> tuple[Decision, AutoscalerMemory]:
        """Scale the due applications in which a task that would change is outside its band."""
        of, names = snapshot.tasks.application, snapshot.task_names()
        refused = _refused_tasks(snapshot)
        count = np.bincount(snapshot.instances.task, minlength=len(names)).tolist()
        past = [
            _at_present(memory.histories.get(name, TaskHistory()), now, "/".join(name) in refused)
            for name, now in zip(names, count, strict=True)
        ]
        needs = self._needs(snapshot, past)
        scaling_round = open_round(snapshot, self.pace, memory.pace_states, needs.rates, needs.missing)
        evaluated = (scaling_round.may_act & ~self._excessive_gc(snapshot))[of]
        past = [
            self._with_catch_up_rate(history, needs, task) if scaling_round.due[of[task]] else history
            for task, history in enumerate(past)
        ]
        target_parallelism = self._target_parallelism(snapshot, needs, past)
        target_parallelism, past = self._delayed_scale_down(snapshot.time_s, needs, target_parallelism, past, evaluated)
        changed = evaluated & (target_parallelism != needs.rates.parallelism)
        changed &= any_by(of, changed & self._tasks_outside_band(snapshot, needs), len(snapshot.applications))[of]
        sizes = []
        for task in np.flatnonzero(changed).tolist():
            sizes.append(TaskSize(task, int(target_parallelism[task])))
            past[task] = self._after_action(past[task], needs, task, float(target_parallelism[task]))
        numbers = {f"{'/'.join(names[size.task])} true_rate": float(needs.true_rate[size.task]) for size in sizes}
        cores = self._cores(snapshot, needs, scaling_round.may_act, sizes)
        reason = "true rates are outside of their band"
        decision, pace_states = round_decision(snapshot, self.pace, scaling_round, sizes, reason, numbers, cores)
        return decision, AutoscalerMemory(pace_states, dict(zip(names, past, strict=True)))

    def _needs(self, snapshot: ClusterSnapshot, histories: list[TaskHistory]) -> _Needs:
        instances, tasks, edges = snapshot.instances, snapshot.tasks, snapshot.edges
        rates, rows = task_rates(snapshot), len(snapshot.instances)
        useful = np.full(len(tasks), -np.inf)
        share_ns = or_nan(instances.busy_ns, rows) + or_nan(instances.remote_wait_ns, rows)
        with np.errstate(invalid="ignore"):
            np.maximum.at(useful, instances.task, share_ns / (snapshot.window_s * NS_PER_S))
        rate = true_rate(rates.rate_in, useful)
        observed = np.array(
            [np.mean(history.catching_up) if len(history.catching_up) >= 2 else np.inf for history in histories]
        )
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

    def _cores(
        self, snapshot: ClusterSnapshot, needs: _Needs, may_act: Bools, sizes: list[TaskSize]
    ) -> tuple[CoreNeed, ...]:
        if self.cores_margin == float("inf"):
            return ()
        short = short_applications(snapshot, needs.rates, needs.target)
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = instances_needed(needs.target, needs.true_rate, needs.rates.parallelism)
        return core_needs(core_loads(snapshot, needed), sizes, may_act & short, self.cores_margin)

    def _with_catch_up_rate(self, history: TaskHistory, needs: _Needs, task: int) -> TaskHistory:
        """Return the history with the rate of a source that is far behind: R / (1 - share of time held up)."""
        if not needs.lag_s[task] >= self.catching_up_s:
            return history
        free = 1 - needs.rates.output_wait_share[task]
        if not free > 0:
            return history
        rates = (*history.catching_up, float(needs.rates.rate_in[task] / free))
        return replace(history, catching_up=rates[-self.history :])

    def _target_parallelism(self, snapshot: ClusterSnapshot, needs: _Needs, histories: list[TaskHistory]) -> Floats:
        tasks, rates = snapshot.tasks, needs.rates
        alpha = np.array(
            [scaling_coefficient(history.observed) if self.learns_scaling else 1.0 for history in histories]
        )
        room = capacity(needs.target, needs.catch_up, self.utilisation, self.restart_s, self.catch_up_s)
        factor = scale_factor(room, needs.true_rate, alpha, self.most_down, self.most_up)
        factor = np.where(needs.missing, 1.0, factor)
        groups = tasks.key_groups.astype(np.float64)
        most = np.where(tasks.is_keyed, np.minimum(groups, self.parallelism_most), float(self.parallelism_most))
        target_parallelism = new_parallelism(factor, rates.parallelism, 1, most)
        keyed = np.flatnonzero(tasks.is_keyed & (target_parallelism != rates.parallelism))
        target_parallelism[keyed] = aligned_parallelism(target_parallelism[keyed], groups[keyed], most[keyed])
        if self.detects_ineffective:
            for task in np.flatnonzero(target_parallelism > rates.parallelism).tolist():
                history = histories[task]
                if history.before is None or history.expected is None:
                    continue
                if is_ineffective(history.before, history.expected, float(needs.true_rate[task]), self.gain_least):
                    target_parallelism[task] = rates.parallelism[task]
        return target_parallelism

    def _delayed_scale_down(
        self, time_s: float, needs: _Needs, target_parallelism: Floats, histories: list[TaskHistory], evaluated: Bools
    ) -> tuple[Floats, list[TaskHistory]]:
        """Return the parallelism after delaying scale-downs: the highest proposal during the wait, once it is over."""
        parallelism, after = target_parallelism.copy(), list(histories)
        for task in np.flatnonzero(evaluated).tolist():
            history = histories[task]
            if target_parallelism[task] >= needs.rates.parallelism[task]:
                after[task] = (
                    history if history.down_since_s is None else replace(history, down_since_s=None, down_most=0)
                )
                continue
            since = time_s if history.down_since_s is None else history.down_since_s
            most = max(history.down_most, int(target_parallelism[task]))
            after[task] = replace(history, down_since_s=since, down_most=most)
            parallelism[task] = most if time_s - since >= self.scale_down_wait_s else needs.rates.parallelism[task]
        return parallelism, after

    def _tasks_outside_band(self, snapshot: ClusterSnapshot, needs: _Needs) -> Bools:
        """Return the tasks outside their band; with a long backlog none counts as idle (FLINK-31318)."""
        of = snapshot.tasks.application
        behind = any_by(of, needs.lag_s > self.backlog_s, len(snapshot.applications))[of]
        high = np.where(behind, 1.0, min(1.0, self.utilisation + self.boundary))
        low = max(0.0, self.utilisation - self.boundary)
        most_busy = capacity(needs.target, needs.catch_up, high, 0.0, self.catch_up_s)
        least_busy = capacity(needs.target, needs.catch_up, low, self.restart_s, self.catch_up_s)
        return outside_band(needs.true_rate, most_busy, np.where(behind, np.inf, least_busy))

    def _after_action(self, history: TaskHistory, needs: _Needs, task: int, target_parallelism: float) -> TaskHistory:
        parallelism, rate = float(needs.rates.parallelism[task]), float(needs.true_rate[task])
        observed = (*history.observed, (int(parallelism), rate))[-self.history :]
        if target_parallelism <= parallelism or not np.isfinite(rate):
            return TaskHistory(int(parallelism), observed if np.isfinite(rate) else history.observed)
        return TaskHistory(int(parallelism), observed, before=rate, expected=rate * target_parallelism / parallelism)

    def _excessive_gc(self, snapshot: ClusterSnapshot) -> Bools:
        """Return the applications that spend too much time collecting garbage; none where it was not measured."""
        gc_ns = or_nan(snapshot.applications.gc_ns, len(snapshot.applications))
        return np.asarray(gc_ns / (snapshot.window_s * NS_PER_S) > self.gc_most)


def _refused_tasks(snapshot: ClusterSnapshot) -> frozenset[str]:
    """Return the tasks, as application/task, whose new parallelism was refused or cut."""
    rows = zip(snapshot.refusals.subject, snapshot.refusals.what, strict=True)
    return frozenset(subject for subject, what in rows if what == "parallelism")


def _at_present(history: TaskHistory, parallelism: int, is_refused: bool) -> TaskHistory:
    """Return the part of a history that holds with so many instances.

    Nothing is expected of a scale-up that was not granted, or that others came after.
    """
    before, expected, seen = history.before, history.expected, history.parallelism
    if parallelism == seen or not seen:
        history = replace(history, parallelism=parallelism)
    else:
        asked = None if not before or expected is None else round(seen * expected / before)
        before, expected = (before, expected) if asked == parallelism else (None, None)
        history = TaskHistory(parallelism, history.observed, before=before, expected=expected)
    return replace(history, before=None, expected=None) if is_refused else history


def _lag_rows(snapshot: ClusterSnapshot) -> Floats:
    """Return the backlog of every source in rows; 0 for a source without partitions."""
    partitions = snapshot.partitions
    lag = or_nan(partitions.end_offset, len(partitions)) - or_nan(partitions.position, len(partitions))
    return sum_by(snapshot.instances.task[partitions.instance], lag, len(snapshot.tasks))
