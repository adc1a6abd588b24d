"""Scenario 2: Taxi Drives and KNN, priorities TDSnk2 > TDSnk1 > KNN, two machines (section 7.2, Figure 4)."""

from dataclasses import dataclass
from typing import Any

from penstock.benchmarks.papers.cluster_model.curves import Curve, Steps
from penstock.benchmarks.papers.cluster_model.loop import Scheduled
from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.economics.applications import (
    KNN,
    SINKS,
    Taxi,
    cluster_spec,
    figure,
    knn_part,
    taxi,
    taxi_part,
)
from penstock.benchmarks.papers.economics.runs import FinishedRun, Verdict, ran
from penstock.model.plan import Placement
from penstock.model.policy import Policy
from penstock.scheduler.placement import TaskScheduler

STARTS_S, BUSY_S, RISES_S, MOVE_S, END_S = 80.0, 170.0, 210.0, 260.0, 380.0
"""Instants of Figure 4: KNN starts (A), its load rises (B), Taxi Drives' load rises, and asks for a move (C)."""
_SETTLES_S = 15.0
_SHED = 0.97
_LESS = 0.03


@dataclass(frozen=True, slots=True)
class Scenario2Verdict(Verdict):
    """The paper's findings for scenario 2: true where they came about."""

    knn_starts_where_most_is_free: bool
    neighbours_at_minimum_meanwhile: bool
    knn_sheds_first: bool
    first_sink_sheds_next: bool
    first_sink_moves: bool
    second_sink_stays: bool
    knn_gives_way: bool


def _taxi(figures: Parameters) -> Taxi:
    return taxi(figures, (2.0, 3.0))


def _levels(figures: Parameters) -> tuple[float, float, float]:
    """Return the rate of each topic at first, where TDSnk1 sheds, and where a move is called for.

    On the first machine are one source, every second instance of TDSnk1 from the first on, and those of TDSnk2.
    """
    of = _taxi(figures)
    count = of.instances[0]
    part = (count + 1) // 2 / count
    full = of.carried(1.0, (1.0, 1.0), (part, 1.0))
    least = of.carried(1.0, (of.minimums[0], 1.0), (part, 1.0))
    too_much = of.carried(1.0, of.minimums, (part, 1.0))
    sheds = full + figure(figures, "scenario_2.shed_share") * (least - full)
    return (
        figure(figures, "scenario_2.low_load") * full,
        sheds,
        too_much * (1 + figure(figures, "scenario_2.over_share")),
    )


def loads(figures: Parameters) -> tuple[Curve, Curve]:
    """Return the rate of each of Taxi Drives' topics, and that of KNN's."""
    low, sheds, moves = _levels(figures)
    of = _taxi(figures)
    own = (of.instances[0] // 2) / of.instances[0] * 2 * low * of.cpu_s[0]
    cost = figure(figures, "knn.cpu_s")
    knn_low = figure(figures, "scenario_2.knn_low_load") / cost
    knn_high = (1 + figure(figures, "scenario_2.knn_over_share") - own) / cost
    return Steps([(0.0, low), (RISES_S, sheds), (MOVE_S, moves)]), Steps([(0.0, knn_low), (BUSY_S, knn_high)])


def scene(figures: Parameters, policy: Policy[Any] | None, seed: int, *, rises: bool = True) -> FinishedRun:
    """Run the scenario, or the same without a rise of load; the task scheduler places KNN when it starts."""
    taxi_rate, knn_rate = loads(figures)
    if not rises:
        taxi_rate, knn_rate = Steps([(0.0, taxi_rate(0.0))]), Steps([(0.0, knn_rate(0.0))])
    spec = cluster_spec(
        figures,
        (0.0, 0.0),
        taxi_part(figures, _taxi(figures), taxi_rate, ("tm1", "tm2")),
        knn_part(figures, knn_rate, ("tm1",), STARTS_S),
    )
    placed = Scheduled("placement", TaskScheduler(seed=seed), 5.0, STARTS_S)
    return ran(spec, policy, END_S, seed, waiting=KNN, others=[placed])


def verdict(figures: Parameters, finished: FinishedRun) -> Scenario2Verdict:
    """Return what came about."""
    of, moves = _taxi(figures), finished.moves()
    meanwhile = [plan.desired_accuracy[0] for at_s, plan in finished.plans() if STARTS_S < at_s <= BUSY_S]
    knn, one, two = (
        [
            finished.accuracy(task, begin_s + _SETTLES_S, end_s)
            for begin_s, end_s in ((BUSY_S, RISES_S), (RISES_S, MOVE_S), (END_S - 20 - _SETTLES_S, END_S))
        ]
        for task in (KNN, *SINKS)
    )
    return Scenario2Verdict(
        knn_starts_where_most_is_free=_placed_at(finished) == "tm2",
        neighbours_at_minimum_meanwhile=bool(meanwhile) and min(meanwhile) <= of.minimums[0] + _LESS,
        knn_sheds_first=knn[0] < _SHED <= min(one[0], two[0]),
        first_sink_sheds_next=one[1] < _SHED <= two[1],
        first_sink_moves=[(move.task, move.to) for move in moves] == [(SINKS[0], "tm2")] and moves[0].time_s > MOVE_S,
        second_sink_stays=all(move.task != SINKS[1] for move in moves),
        knn_gives_way=knn[2] < knn[1] - _LESS,
    )


def _placed_at(finished: FinishedRun) -> str | None:
    """Return the machine on which the task scheduler let KNN start."""
    for item in finished.done.decisions("placement"):
        if isinstance(item.decision, Placement) and item.outcome.result == "begun":
            return item.snapshot.machines.name[item.decision.moves[0].machine]
    return None
