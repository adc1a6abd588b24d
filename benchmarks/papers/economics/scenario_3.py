"""Scenario 3: KNN on two machines while the rate of its topic steps up and down (section 7.3, Figure 5)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.benchmarks.papers.cluster_model.curves import Curve, Steps
from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.economics.applications import KNN, cluster_spec, figure, knn_full, knn_part
from penstock.benchmarks.papers.economics.runs import WARM_S, FinishedRun, Verdict, ran
from penstock.model.policy import Policy

STAYS_S = 45.0
"""Duration of one rate."""
_TOLERANCE = 0.05
_WINDOW_S = 5.0


@dataclass(frozen=True, slots=True)
class Scenario3Verdict(Verdict):
    """The paper's findings for scenario 3, over all steps of the rate: true where they came about.

    ``follows``: accuracy came to where it stays within two cycles. Lag is bounded if it is never above
    2 x overload x period (docs/design/papers/stream-economics.md 10).
    """

    follows: bool
    is_shed_at_the_peaks: bool
    is_whole_between: bool
    lag_is_bounded: bool


def levels(figures: Parameters, *, rises: bool = True) -> list[tuple[float, float]]:
    """Return (time, rate of the topic): from low to high loads in turn, each high one followed by the low one."""
    full, low = knn_full(figures, 2), figure(figures, "scenario_3.low_load")
    points, at_s = [(0.0, low * full)], WARM_S + STAYS_S - 15.0
    for high in figures.value("scenario_3", "high_loads"):
        # Whatever is drawn, a high load is one that does not fit.
        points += [(at_s, (max(float(high), 1.2) if rises else low) * full), (at_s + STAYS_S, low * full)]
        at_s += 2 * STAYS_S
    return points


def end_s(figures: Parameters) -> float:
    """Return when the last rate is over."""
    return levels(figures)[-1][0] + STAYS_S


def scene(figures: Parameters, policy: Policy[Any] | None, seed: int, *, rises: bool = True) -> FinishedRun:
    """Run the scenario, or the same without a rise of load."""
    rate: Curve = Steps(levels(figures, rises=rises))
    spec = cluster_spec(figures, (0.0, 0.0), knn_part(figures, rate, ("tm1", "tm2")))
    return ran(spec, policy, end_s(figures), seed)


def verdict(figures: Parameters, finished: FinishedRun) -> Scenario3Verdict:
    """Return what came about; two cycles are 10 s, and the accuracy of a time is that of 5 s."""
    full, period_s = knn_full(figures, 2), figure(figures, "qod.period_s")
    follows: list[bool] = []
    high: list[float] = []
    low: list[float] = []
    for at_s, rate in levels(figures)[1:]:
        stays = finished.accuracy(KNN, at_s + STAYS_S - 4 * _WINDOW_S, at_s + STAYS_S)
        begins = np.arange(at_s + 2 * period_s, at_s + STAYS_S - _WINDOW_S, _WINDOW_S).tolist()
        follows += [abs(finished.accuracy(KNN, begin, begin + _WINDOW_S) - stays) <= _TOLERANCE for begin in begins[:2]]
        (high if rate > full else low).append(stays)
    over = max(rate for _, rate in levels(figures)) - full
    worst = float(finished.lag()[finished.within(WARM_S, end_s(figures))].max())
    return Scenario3Verdict(
        all(follows), max(high) < 1 - _TOLERANCE, min(low) >= 1 - _TOLERANCE, worst <= 2 * over * period_s
    )
