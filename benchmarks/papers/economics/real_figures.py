"""The figures of a run on real parts: how the lag moved, what was said and what was counted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.model.columns import Floats
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.group_sums import total
from penstock.shedding.qod_sources import NO_LAGS, OfferedRates, SourceRates, lag_maxima, offered_to_sources

CYCLE_S = 5.0
CALM_CYCLES = 4
"""So many cycles after a step the lag is looked at: what the reaction left behind has been read by then."""

BOUND_S = 1.0
"""Lag that is none: seconds of input."""


@dataclass(frozen=True, slots=True)
class CycleAccuracy:
    """One cycle: when it ended, and by query the accuracy said and counted; rates by source, rows/s, and injected.

    ``said`` and ``rates`` by estimator, "end offsets" or "lag maxima".
    """

    end_s: float
    said: Mapping[str, Mapping[str, float]]
    counted: Mapping[str, float]
    rates: Mapping[str, Mapping[str, float]]
    injected: Mapping[str, float]


ESTIMATORS: tuple[SourceRates, ...] = get_args(SourceRates)


def growth_cycles(run: SeenRun, phase: int) -> float:
    """Return for how many cycles the lag grew after a phase began; 0 if it never was that of a second of input."""
    begin, end = run.bounds[phase]
    own = run.within(begin, end)
    lag_s = run.input_s()[own]
    return 0.0 if lag_s.max() < BOUND_S else float(run.times_s[own][lag_s.argmax()] - begin) / CYCLE_S


def calm_lag_s(run: SeenRun, phase: int) -> Floats:
    """Return the lag in seconds of input in the calm part of a phase."""
    begin, end = run.bounds[phase]
    return run.input_s()[run.within(min(begin + CALM_CYCLES * CYCLE_S, (begin + end) / 2), end)]


def slope_ratio(run: SeenRun, phase: int) -> float:
    """Return the growth of the lag in a phase over what is offered beyond the capacity, measured before and after."""
    begin, end = run.bounds[phase]
    own = run.within(begin + (end - begin) / 4, end)
    slope = float(np.polyfit(run.times_s[own], run.lag()[own], 1)[0])
    topics = len(run.case["topics"])
    return slope / (topics * (run.phases[phase].rows_per_s - (run.capacity + run.capacity_after) / 2))


def cycles(run: SeenRun, policy: str = "qod") -> Iterator[CycleAccuracy]:
    """Yield the cycles that lie within the phases."""
    before = NO_LAGS
    for snapshot in run.snapshots(policy):
        end_s = run.job_begun_s + snapshot.time_s
        begin_s = end_s - snapshot.window_s
        lags, before = before, lag_maxima(snapshot)
        if begin_s < 0.0 or end_s > run.bounds[-1][1]:
            continue
        offered: dict[str, Mapping[str, float]] = {name: _offered(snapshot, name, lags) for name in ESTIMATORS}
        if all(offered.values()):
            yield _cycle(run, snapshot, (begin_s, end_s), offered)


def _cycle(
    run: SeenRun, snapshot: ClusterSnapshot, window: tuple[float, float], offered: Mapping[str, Mapping[str, float]]
) -> CycleAccuracy:
    taken = _taken(snapshot)
    sources = dict(zip(run.topics, next(iter(offered.values())), strict=True))
    said: dict[str, dict[str, float]] = {name: {} for name in offered}
    for query, where in run.queries.items():
        rows = next(rows for task, rows in taken.items() if where["operator"] in task.split(" -> "))
        for name, rates in offered.items():
            there = sum(rates[sources[topic]] for topic in where["topics"])
            said[name][query] = min(1.0, rows / there) if there else 1.0
    length_s = window[1] - window[0]
    return CycleAccuracy(
        window[1],
        said,
        {query: min(1.0, run.accuracy(query, *window)) for query in run.queries},
        {name: {topic: rates[source] for topic, source in sources.items()} for name, rates in offered.items()},
        {topic: run.offered([topic]).between(*window) / length_s for topic in sources},
    )


def _offered(snapshot: ClusterSnapshot, estimator: SourceRates, before: Any) -> dict[str, float]:
    """Return rows/s by source task as an estimator has them; none if it cannot say."""
    rates = offered_to_sources(snapshot, snapshot.tasks.is_source, estimator, None, before)
    if not isinstance(rates, OfferedRates):
        return {}
    own = np.flatnonzero(snapshot.tasks.is_source).tolist()
    by_name = {snapshot.tasks.name[task]: float(rates.task[task]) for task in own}
    return by_name if np.isfinite(list(by_name.values())).all() else {}


def _taken(snapshot: ClusterSnapshot) -> dict[str, float]:
    """Return rows/s that each task has taken, after shedding."""
    assert snapshot.instances.records_in is not None
    rows = total(snapshot.instances.records_in, snapshot.instances.task.astype(np.intp), len(snapshot.tasks))
    return dict(zip(snapshot.tasks.name, (rows / snapshot.window_s).tolist(), strict=True))


def accuracy_errors(seen: Sequence[CycleAccuracy], estimator: str) -> list[float]:
    """Return how far what was said is from what was counted, of each query in each cycle, percent points."""
    return [100 * abs(each.said[estimator][query] - true) for each in seen for query, true in each.counted.items()]


def rate_errors(seen: Sequence[CycleAccuracy], estimator: str) -> list[float]:
    """Return how much an estimated rate is above what was injected, by source in each cycle, percent of it."""
    return [
        100 * (each.rates[estimator][topic] - true) / true
        for each in seen
        for topic, true in each.injected.items()
        if true > 0
    ]


def keeps_order(seen: CycleAccuracy, minimums: Mapping[str, float], order: Sequence[str], slack: float = 0.05) -> bool:
    """Return whether a query is shed only where the one before it in ``order`` is at its minimum."""
    return all(
        seen.counted[later] >= 1.0 - slack or seen.counted[earlier] <= minimums[earlier] + slack
        for earlier, later in pairwise(order)
    )
