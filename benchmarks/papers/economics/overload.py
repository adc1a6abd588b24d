"""A peak that one machine cannot carry: what waits in the logs, with shedding and without (section 7.4, Figure 8)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.benchmarks.papers.cluster_model.curves import Constant, Curve, Steps
from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.economics.applications import SINKS, Taxi, cluster_spec, figure, taxi, taxi_part
from penstock.benchmarks.papers.economics.runs import FinishedRun, ran
from penstock.model.policy import Policy

_BEGINS_S, _AFTER_S = 80.0, 40.0


@dataclass(frozen=True, slots=True)
class Peak:
    """The begin and the end of a peak, and the rates of each topic outside of it and in it."""

    begin_s: float
    end_s: float
    low: float
    high: float
    full: float

    @property
    def over(self) -> float:
        """Rows/s of all topics that are too many."""
        return 2 * (self.high - self.full)

    def curve(self, *, rises: bool = True) -> Curve:
        """Return the rate of each topic."""
        if not rises:
            return Constant(self.low)
        return Steps([(0.0, self.low), (self.begin_s, self.high), (self.end_s, self.low)])


def _taxi(figures: Parameters) -> Taxi:
    least = figure(figures, "overload.minimum")
    return taxi(figures, minimums=(least, least))


def peak(figures: Parameters, seed: int) -> Peak:
    """Return the peak of a draw: it begins anywhere between two cycles."""
    full, period_s = _taxi(figures).full, figure(figures, "qod.period_s")
    begin_s = _BEGINS_S + float(np.random.default_rng(seed).uniform(0.0, period_s))
    end_s = begin_s + figure(figures, "overload.peak_s")
    low, high = (figure(figures, f"overload.{name}") * full for name in ("low_load", "factor"))
    return Peak(begin_s, end_s, low, high, full)


def scene(figures: Parameters, policy: Policy[Any] | None, seed: int, *, rises: bool = True) -> FinishedRun:
    """Run Taxi Drives on one machine through the peak of this draw, or without it."""
    of = peak(figures, seed)
    spec = cluster_spec(figures, (0.0,), taxi_part(figures, _taxi(figures), of.curve(rises=rises), ("tm1",)))
    return ran(spec, policy, of.end_s + _AFTER_S, seed)


def worst_lag(of: Peak, finished: FinishedRun, period_s: float) -> float:
    """Return the largest lag of the peak over 2 x overload x period, which it must not exceed."""
    return float(finished.lag()[finished.within(of.begin_s, of.end_s)].max()) / (2 * of.over * period_s)


def grows_s(of: Peak, finished: FinishedRun) -> float:
    """Return for how long after the peak's begin lag grows: until it is never again larger by what comes in 0.1 s.

    Where there is no lag worth that, it does not grow.
    """
    chosen = finished.within(of.begin_s, of.end_s)
    times, lag, small = finished.times_s[chosen], finished.lag()[chosen], 0.2 * of.high
    later = np.maximum.accumulate(lag[::-1])[::-1]
    over = np.flatnonzero((later > np.maximum.accumulate(lag) + small) | (lag.max() <= small))
    if lag.max() <= small:
        return 0.0
    return float(times[over[-1] + 1 if len(over) else 0] - of.begin_s)


def slope(of: Peak, finished: FinishedRun) -> float:
    """Return by how many rows/s lag grows in the second half of the peak, over those that are too many: R - C."""
    chosen = finished.within((of.begin_s + of.end_s) / 2, of.end_s)
    rate = np.polyfit(finished.times_s[chosen], finished.lag()[chosen], 1)[0]
    return float(rate) / of.over


def lag_over(ours: FinishedRun, other: FinishedRun, of: Peak) -> float:
    """Return what waits at the end of the peak over what waits there in another run; a row more in both, so never 0."""
    return (last_lag(of, ours) + 1) / (last_lag(of, other) + 1)


def last_lag(of: Peak, finished: FinishedRun) -> float:
    """Return the rows that wait at the end of the peak."""
    return float(finished.lag()[finished.within(of.begin_s, of.end_s)][-1])


def whole_again_s(of: Peak, finished: FinishedRun) -> float:
    """Return how long after the peak the last shedder that dropped something was opened."""
    closed = [at_s for at_s, plan in finished.plans() if plan.source_keep or plan.edge_keep]
    opened = [item.time_s for item in finished.done.decisions("qod") if item.time_s > max(closed, default=0.0)]
    return max(0.0, min(opened, default=float("inf")) - of.end_s)


def accuracy(of: Peak, finished: FinishedRun) -> float:
    """Return the least accuracy of a sink over the time of the peak."""
    return min(finished.accuracy(sink, of.begin_s, of.end_s) for sink in SINKS)


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Lag in seconds of input, rows/s read, latency without the log and the wait in it, at a rate of each topic."""

    rate: float
    lag_s: float
    read: float
    latency_ms: float
    log_wait_ms: float


def figure_8(figures: Parameters, policy: Policy[Any] | None, seed: int) -> tuple[FinishedRun, list[LoadPoint], Taxi]:
    """Run Taxi Drives on one machine while its rate rises step by step; return what was at the end of each step."""
    of = taxi(figures)
    step_s, count = figure(figures, "figure_8.step_s"), max(3, int(figure(figures, "figure_8.steps")))
    first, last = (figure(figures, f"figure_8.{name}") for name in ("first_load", "last_load"))
    # Below the load at which minimums are too much: beyond it there is no accuracy left to give.
    last = min(max(last, 1.3), 0.95 * of.too_much(0) / of.full)
    rates = (np.linspace(min(first, 0.7), last, count) * of.full).tolist()
    begins = [_BEGINS_S + number * step_s for number in range(count)]
    curve = Steps([(0.0, rates[0]), *zip(begins, rates, strict=True)])
    spec = cluster_spec(figures, (0.0,), taxi_part(figures, of, curve, ("tm1",)))
    finished = ran(spec, policy, begins[-1] + step_s, seed)
    return (
        finished,
        [_point(finished, begin, begin + step_s, rate) for begin, rate in zip(begins, rates, strict=True)],
        of,
    )


def _point(finished: FinishedRun, begin_s: float, end_s: float, rate: float) -> LoadPoint:
    chosen = finished.within(end_s - min(15.0, (end_s - begin_s) / 2), end_s)
    series = finished.done.series
    every_s = float(np.diff(finished.times_s).mean())
    read = float(series.table("fetched")[chosen].sum(axis=1).mean()) / every_s
    lag = float(finished.lag()[chosen].mean())
    latency = float(np.mean([series.task("emit_latency_ms", sink)[chosen].mean() for sink in SINKS]))
    return LoadPoint(rate, lag / (2 * rate), read, latency, 1e3 * lag / max(read, 1e-9))
