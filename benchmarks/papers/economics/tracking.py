"""Errors of the controller's estimates: accuracy of sources, and the rate of a topic (1.7, Figure 5).

Lag maxima are the paper's way to learn a rate; end offsets are exact, and prove nothing.
"""

from dataclasses import dataclass

import numpy as np

from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.economics import scenario_1, scenario_3
from penstock.benchmarks.papers.economics.applications import KNN, SOURCES
from penstock.benchmarks.papers.economics.controllers import BY_MAXIMA
from penstock.benchmarks.papers.economics.runs import FinishedRun
from penstock.model.columns import Floats
from penstock.model.plan import NoChange
from penstock.shedding.qod_figures import FigureOptions, read_figures
from penstock.shedding.qod_sources import NO_LAGS, lag_maxima, offered_to_sources


@dataclass(frozen=True, slots=True)
class TrackingErrors:
    """Errors |cAc - ac| by cycle and source: by lag maxima, of the target accuracy, and by end offsets."""

    accuracy: Floats
    target: Floats
    exact: Floats


def accuracy_errors(figures: Parameters, seed: int, *, rises: bool = True) -> TrackingErrors:
    """Return them for scenario 1, in which the paper measured them."""
    finished = scenario_1.scene(figures, BY_MAXIMA, seed, rises=rises)
    ours, exact = (_accuracies(finished, FigureOptions(sources=sources)) for sources in ("lag maxima", "end offsets"))
    targets, keep = [], 1.0
    for item in finished.done.decisions("qod"):
        targets += [keep] * len(SOURCES)
        keep = min(getattr(item.decision, "source_keep", {}).values(), default=1.0)
    truth = _truth(finished, SOURCES)
    valid = ~np.isnan(ours)
    return TrackingErrors(*(np.abs(values - truth)[valid] for values in (ours, np.array(targets), exact)))


@dataclass(frozen=True, slots=True)
class TopicRates:
    """The rate of a topic by cycle, rows/s: what came in, what lag maxima say did, and what was read."""

    times_s: Floats
    true: Floats
    estimated: Floats
    consumed: Floats


def rates_of(finished: FinishedRun) -> TopicRates:
    """Return the rates of scenario 3 in the windows of its cycles, without those in which nothing is known."""
    rates: list[tuple[float, float, float, float]] = []
    before = NO_LAGS
    for item in finished.done.decisions("qod"):
        snapshot = item.snapshot
        estimate = offered_to_sources(snapshot, snapshot.tasks.is_source, "lag maxima", None, before)
        before = lag_maxima(snapshot)
        window_s, end_s = snapshot.window_s, snapshot.time_s
        true = _rows(finished, "appended", KNN, end_s - window_s, end_s) / window_s
        consumed = snapshot.partitions.consumed
        if true > 0 and consumed is not None and not isinstance(estimate, NoChange):
            rates.append((end_s, true, float(np.nansum(estimate.task)), float(consumed.sum()) / window_s))
    return TopicRates(*np.array(rates).T)


def rate_errors(figures: Parameters, seed: int, *, rises: bool = True) -> tuple[Floats, Floats]:
    """Return estimated / true rate - 1 by cycle of scenario 3: by lag maxima, and by the rate consumed."""
    rates = rates_of(scenario_3.scene(figures, BY_MAXIMA, seed, rises=rises))
    return rates.estimated / rates.true - 1, rates.consumed / rates.true - 1


def _accuracies(finished: FinishedRun, reading: FigureOptions) -> Floats:
    """Return cAc of each source by cycle, cycle after cycle; NaN where the controller does not know."""
    accuracies: list[float] = []
    before = NO_LAGS
    for item in finished.done.decisions("qod"):
        figures = read_figures(item.snapshot, reading, before)
        before = lag_maxima(item.snapshot)
        if isinstance(figures, NoChange):
            accuracies += [np.nan] * len(SOURCES)
            continue
        names = item.snapshot.tasks.name
        accuracies += [
            float(c_ac[0]) if len(c_ac := figures.c_ac[figures.task == names.index(source)]) else np.nan
            for source in SOURCES
        ]
    return np.array(accuracies)


def _truth(finished: FinishedRun, sources: tuple[str, ...]) -> Floats:
    """Return ac of each source by cycle: rows kept over rows appended in the window that the cycle saw."""
    accuracies = []
    for item in finished.done.decisions("qod"):
        end_s, begin_s = item.snapshot.time_s, item.snapshot.time_s - item.snapshot.window_s
        for source in sources:
            kept, came = (_rows(finished, name, source, begin_s, end_s) for name in ("processed", "appended"))
            accuracies.append(min(1.0, kept / max(came, 1e-9)))
    return np.array(accuracies)


def _rows(finished: FinishedRun, name: str, task: str, begin_s: float, end_s: float) -> float:
    return float(finished.done.series.task(name, task)[finished.within(begin_s, end_s)].sum())
