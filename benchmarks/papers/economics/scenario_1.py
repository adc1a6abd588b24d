"""Scenario 1: Taxi Drives alone, sinks of equal priority, one machine and then a second (section 7.1, Figure 3)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.benchmarks.papers.cluster_model.curves import Constant, Curve, Lines, Steps
from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.economics.applications import SINKS, Taxi, cluster_spec, figure, taxi, taxi_part
from penstock.benchmarks.papers.economics.runs import FinishedRun, Verdict, ran
from penstock.model.policy import Policy

JOINS_S = 75.0
SHED_S, CALM_S, NEAR_S, MOVE_S, AGAIN_S, END_S = 90.0, 150.0, 190.0, 250.0, 350.0, 450.0
"""Instants of Figure 3: load rises (A), falls (B), rises, asks for the first move (C) and for the last (D)."""
_RAMP_S, _SLOWLY_S = 1.0, 40.0
FREE = ((0.4, 0.8), (1.05, 1.6), (1.6, 2.4), (2.0, 3.2))
"""Of what the first machine carries: the loads before, at (A), (C) and (D) where they are drawn."""
_SETTLES_S = 20.0
_SHED = 0.97
_ABOVE = 0.02


@dataclass(frozen=True, slots=True)
class Scenario1Verdict(Verdict):
    """The paper's findings for scenario 1: true where they came about."""

    nothing_moves_early: bool
    both_shed: bool
    none_at_its_minimum: bool
    calm_again: bool
    only_the_first_sink_moves: bool
    one_at_a_time: bool
    minimums_kept: bool


def loads(figures: Parameters, of: Taxi) -> Curve:
    """Return the rate of each topic."""
    low = figure(figures, "scenario_1.low_load") * of.full
    last = of.instances[0] - 1
    first_move, next_move = of.too_much(0), of.too_much(min(1, last))
    shed = of.full + figure(figures, "scenario_1.shed_share") * (first_move - of.full)
    # With one instance there is no next move to stay below.
    between = (next_move - first_move) if last else 2 * figure(figures, "scenario_1.over_share") * first_move
    once = first_move + figure(figures, "scenario_1.move_share") * between
    every = of.too_much(last) * (1 + figure(figures, "scenario_1.over_share"))
    near = first_move * (1 - figure(figures, "scenario_1.approach_share"))
    levels = ((SHED_S, shed), (CALM_S, low), (NEAR_S, near), (MOVE_S, once), (AGAIN_S, max(once, every)))
    points = [(0.0, low)]
    for at_s, level in levels:
        takes_s = _SLOWLY_S if at_s == NEAR_S else _RAMP_S
        points += [(at_s, points[-1][1]), (at_s + takes_s, level)]
    return Lines(points)


def slow_loads(figures: Parameters, of: Taxi) -> Curve:
    """Return a rate that rises by small steps past the load of the last move: the ramp that crosses every limit."""
    step, begin = figure(figures, "scenario_1.slow_share"), 0.95 * of.too_much(0)
    end = of.too_much(of.instances[0] - 1) * (1 + figure(figures, "scenario_1.over_share"))
    points, at_s = [(0.0, figure(figures, "scenario_1.low_load") * of.full)], SHED_S
    while points[-1][1] < end:
        points.append((at_s, begin if len(points) == 1 else points[-1][1] * (1 + step)))
        at_s += 40.0
    return Steps(points)


def free_loads(of: Taxi, seed: int) -> Curve:
    """Return rates that no limit of the model sets: levels are drawn, in loads that the first machine carries."""
    random = np.random.default_rng([seed, 3])
    low, shed, once, every = (random.uniform(*span) * of.full for span in FREE)
    levels = ((SHED_S, shed), (CALM_S, low), (MOVE_S, once), (AGAIN_S, max(once, every)))
    points = [(0.0, low)]
    for at_s, level in levels:
        points += [(at_s, points[-1][1]), (at_s + _RAMP_S, level)]
    return Lines(points)


def scene(figures: Parameters, policy: Policy[Any] | None, seed: int, *, rises: bool = True) -> FinishedRun:
    """Run the scenario, or the same without a rise of load."""
    of = taxi(figures)
    calm = Constant(figure(figures, "scenario_1.low_load") * of.full)
    return scene_of(figures, policy, seed, loads(figures, of) if rises else calm)


def scene_of(figures: Parameters, policy: Policy[Any] | None, seed: int, rate: Curve) -> FinishedRun:
    """Run the scenario under this rate of each topic."""
    spec = cluster_spec(figures, (0.0, JOINS_S), taxi_part(figures, taxi(figures), rate, ("tm1",)))
    return ran(spec, policy, END_S, seed)


def verdict(figures: Parameters, finished: FinishedRun) -> Scenario1Verdict:
    """Return what came about."""
    of, moves = taxi(figures), finished.moves()
    shed = [finished.accuracy(sink, SHED_S + _SETTLES_S, CALM_S) for sink in SINKS]
    calm = [finished.accuracy(sink, CALM_S + _SETTLES_S, NEAR_S) for sink in SINKS]
    accuracies = [finished.accuracy(sink, end - 20.0, end) for sink in SINKS for end in (AGAIN_S, END_S)]
    least = [minimum for minimum in of.minimums for _ in (AGAIN_S, END_S)]
    return Scenario1Verdict(
        nothing_moves_early=all(move.time_s > MOVE_S for move in moves),
        both_shed=max(shed) < _SHED,
        none_at_its_minimum=all(ac > minimum + _ABOVE for ac, minimum in zip(shed, of.minimums, strict=True)),
        calm_again=min(calm) >= _SHED,
        only_the_first_sink_moves=sorted((move.task, move.number, move.to) for move in moves)
        == [(SINKS[0], number, "tm2") for number in range(of.instances[0])],
        one_at_a_time=len({move.time_s for move in moves}) == len(moves)
        and sum(MOVE_S < move.time_s <= AGAIN_S for move in moves) == 1,
        minimums_kept=all(ac >= minimum - _ABOVE for ac, minimum in zip(accuracies, least, strict=True)),
    )
