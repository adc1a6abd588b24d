"""What one rule of Sage looks at: the samples of its window, and the same by ticks. Called by `sage` and its rules.

The data collector takes metrics in as they come, rules are tried once a tick (Sage, 4): a burst that a tick's mean
hides is in its samples.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.observations import METRICS, History, Observed, Window

_LAST = frozenset({"heap", "memory", "cores", "threads", "backlog", "settled_s"})
_SERVICES = frozenset({"latency_ms", "calls", "answers"})


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """A window of all applications: ``samples`` of ``sample_s`` seconds each, and their ``ticks``.

    Of a tick: the allocation and backlog at its end, the sum of kills, else the mean; of a service the mean of what was
    measured. ``heap``: what the applications will have, once all that is decided is done.
    ``usual_rate``: rows a second that came in the mean of all that is remembered, which a bound of latency is worth.
    ``partitions`` of the logs that are read, NaN: nobody knows. ``explained``: samples whose backlog is put down to a
    remote service.
    """

    samples: Observed
    ticks: Observed
    sample_s: float
    heap: Floats
    usual_rate: Floats
    partitions: Floats
    explained: Bools

    @property
    def length_s(self) -> float:
        """How long the window is."""
        return len(self.samples.backlog) * self.sample_s

    def part(self, first: float, last: float) -> "Look":
        """Return the part of the window between two shares of its length; all of it, if it is a single tick."""
        return replace(
            self,
            samples=_cut(self.samples, first, last),
            ticks=_cut(self.ticks, first, last),
            explained=_rows(self.explained, first, last),
        )

    def last(self, seconds: float) -> "Look":
        """Return the last so many seconds."""
        return self if seconds >= self.length_s else self.part(1 - seconds / self.length_s, 1.0)


def look(history: History, snapshot: ClusterSnapshot, seconds: float, tick_s: float) -> Look:
    """Return the last so many seconds before a snapshot, which is the last sample; ticks are counted back from it."""
    samples = history.last(seconds)
    now = (
        samples.heap[-1],
        _usual(history.windows.appended),
        _partitions(snapshot),
        np.zeros(samples.backlog.shape, np.bool_),
    )
    time_s = history.time_s[-len(samples.backlog) :]
    # One report that is late, and long, makes no ticks of the others.
    sample_s = float(np.median(np.diff(time_s))) if len(time_s) > 1 else snapshot.window_s
    if sample_s >= tick_s * (1 - 1e-9):
        return Look(samples, samples, sample_s, *now)
    back = np.floor((time_s[-1] - time_s) / tick_s + 1e-9)
    starts = np.flatnonzero(np.diff(back, prepend=np.inf))
    ticks = {name: _by_tick(name, getattr(samples, name), starts) for name in METRICS}
    return Look(samples, Observed(**ticks), sample_s, *now)


def _cut(seen: Observed, first: float, last: float) -> Observed:
    return Observed(**{name: _rows(getattr(seen, name), first, last) for name in METRICS})


def _rows(values: NDArray[Any], first: float, last: float) -> NDArray[Any]:
    begin, end = round(first * len(values)), round(last * len(values))
    return values if begin >= end else values[begin:end]


def _partitions(snapshot: ClusterSnapshot) -> Floats:
    tasks = snapshot.instances.task[snapshot.partitions.instance]
    found = np.bincount(snapshot.tasks.application[tasks], minlength=len(snapshot.applications))
    return np.where(found > 0, found, np.nan)


def _usual(rate: Window) -> Floats:
    """Return the mean of what was measured; NaN where nothing was."""
    seen = ~np.isnan(rate)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(seen, rate, 0.0).sum(axis=0) / seen.sum(axis=0), np.float64)


def _by_tick(name: str, values: Window, starts: NDArray[np.int64]) -> Window:
    if name in _LAST:
        return np.asarray(values[np.append(starts[1:], len(values)) - 1], np.float64)
    if name == "kills":
        return np.asarray(np.add.reduceat(values, starts, axis=0), np.float64)
    seen = ~np.isnan(values) if name in _SERVICES else np.ones_like(values, np.bool_)
    with np.errstate(invalid="ignore"):
        total = np.add.reduceat(np.where(seen, values, 0.0), starts, axis=0)
        return np.asarray(total / np.add.reduceat(seen.astype(np.float64), starts, axis=0), np.float64)


def least_capacity(work: Window, each_s: float, allowed: Floats, span_s: float = 0.0) -> Floats:
    """Return by application the least steady capacity with which no more than ``allowed`` work ever waits.

    C = max over s < t of (W(s, t) - allowed) / (t - s);  t - s >= span_s

    W(s, t): the work that came between two moments, in ``work`` a second by steps of ``each_s``. A peak that the bound
    of latency takes in needs no capacity of its own, one that lasts does.
    """
    came = np.vstack([np.zeros((1, work.shape[1])), np.cumsum(work, axis=0) * each_s])
    least = np.zeros(work.shape[1])
    first = min(max(1, round(span_s / each_s)), len(work))
    for steps in range(first, len(came)):
        most = (came[steps:] - came[:-steps]).max(axis=0)
        least = np.maximum(least, (most - allowed) / (steps * each_s))
    return least
