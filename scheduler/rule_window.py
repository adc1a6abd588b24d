"""The window of one of Sage's rules: its samples, and their means by tick. Called by `sage` and its rules.

Metrics are collected as they arrive, rules are evaluated once per tick (Sage, 4): a burst that is hidden in a tick's
mean shows in its samples.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.observations import METRICS, SPARSE, ApplicationMetrics, MetricHistory, Window

_AT_TICK_END = frozenset({"heap", "memory", "cores", "threads", "backlog", "settled_s"})


@dataclass(frozen=True, slots=True, eq=False)
class RuleWindow:
    """A window of all applications: ``samples`` of ``sample_s`` seconds each, and their ``ticks``.

    A tick has the allocation and backlog at its end, the sum of kills, the mean of all else; for a service the mean of
    the measured values. ``heap``: the planned heap of the applications, after all decisions so far. ``usual_rate``:
    mean input (rows/s) over the whole history, which converts a latency bound to rows. ``partitions``: of the logs that
    are read, NaN where unknown. ``explained``: samples whose backlog is attributed to a remote service.
    """

    samples: ApplicationMetrics
    ticks: ApplicationMetrics
    sample_s: float
    heap: Floats
    usual_rate: Floats
    partitions: Floats
    explained: Bools

    @property
    def length_s(self) -> float:
        """The length of the window."""
        return len(self.samples.backlog) * self.sample_s

    def part(self, first: float, last: float) -> "RuleWindow":
        """Return the part of the window between two shares of its length; all of it, if it is a single tick."""
        return replace(
            self,
            samples=_cut(self.samples, first, last),
            ticks=_cut(self.ticks, first, last),
            explained=_rows(self.explained, first, last),
        )

    def last(self, seconds: float) -> "RuleWindow":
        """Return the last ``seconds`` of the window."""
        return self if seconds >= self.length_s else self.part(1 - seconds / self.length_s, 1.0)


def rule_window(history: MetricHistory, snapshot: ClusterSnapshot, seconds: float, tick_s: float) -> RuleWindow:
    """Return the last ``seconds`` up to a snapshot, which is the last sample; ticks are counted back from it."""
    samples = history.last(seconds)
    present = (
        samples.heap[-1],
        _mean_rate(history.windows.appended),
        _partitions(snapshot),
        np.zeros(samples.backlog.shape, np.bool_),
    )
    time_s = history.time_s[-len(samples.backlog) :]
    # One report that is late, and long, makes no ticks of the others.
    sample_s = float(np.median(np.diff(time_s))) if len(time_s) > 1 else snapshot.window_s
    if sample_s >= tick_s * (1 - 1e-9):
        return RuleWindow(samples, samples, sample_s, *present)
    ticks_back = np.floor((time_s[-1] - time_s) / tick_s + 1e-9)
    starts = np.flatnonzero(np.diff(ticks_back, prepend=np.inf))
    ticks = {name: _by_tick(name, getattr(samples, name), starts) for name in METRICS}
    return RuleWindow(samples, ApplicationMetrics(**ticks), sample_s, *present)


def _cut(metrics: ApplicationMetrics, first: float, last: float) -> ApplicationMetrics:
    return ApplicationMetrics(**{name: _rows(getattr(metrics, name), first, last) for name in METRICS})


def _rows(values: NDArray[Any], first: float, last: float) -> NDArray[Any]:
    begin, end = round(first * len(values)), round(last * len(values))
    return values if begin >= end else values[begin:end]


def _partitions(snapshot: ClusterSnapshot) -> Floats:
    tasks = snapshot.instances.task[snapshot.partitions.instance]
    partitions = np.bincount(snapshot.tasks.application[tasks], minlength=len(snapshot.applications))
    return np.where(partitions > 0, partitions, np.nan)


def _mean_rate(rate: Window) -> Floats:
    """Return the mean of the measured values; NaN where there are none."""
    is_measured = ~np.isnan(rate)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(is_measured, rate, 0.0).sum(axis=0) / is_measured.sum(axis=0), np.float64)


def _by_tick(name: str, values: Window, starts: NDArray[np.int64]) -> Window:
    if name in _AT_TICK_END:
        return np.asarray(values[np.append(starts[1:], len(values)) - 1], np.float64)
    if name == "kills":
        return np.asarray(np.add.reduceat(values, starts, axis=0), np.float64)
    is_measured = ~np.isnan(values) if name in SPARSE else np.ones_like(values, np.bool_)
    with np.errstate(invalid="ignore"):
        total = np.add.reduceat(np.where(is_measured, values, 0.0), starts, axis=0)
        return np.asarray(total / np.add.reduceat(is_measured.astype(np.float64), starts, axis=0), np.float64)


def least_capacity(work: Window, each_s: float, allowed: Floats, span_s: float = 0.0) -> Floats:
    """Return by application the least steady capacity with which at most ``allowed`` work ever waits.

    C = max over s < t of (W(s, t) - allowed) / (t - s);  t - s >= span_s

    W(s, t): the work that arrived between two moments, from ``work`` per second in steps of ``each_s``. A peak that the
    latency bound absorbs needs no capacity of its own, one that lasts does.
    """
    arrived = np.vstack([np.zeros((1, work.shape[1])), np.cumsum(work, axis=0) * each_s])
    least = np.zeros(work.shape[1])
    first = min(max(1, round(span_s / each_s)), len(work))
    for steps in range(first, len(arrived)):
        most = (arrived[steps:] - arrived[:-steps]).max(axis=0)
        least = np.maximum(least, (most - allowed) / (steps * each_s))
    return least
