"""Rows of Figures 3 to 5: in which part of the draws everything comes about that the paper shows."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.economics import scenario_1, scenario_2, scenario_3
from penstock.benchmarks.papers.economics.applications import parameters, taxi
from penstock.benchmarks.papers.economics.controllers import PAPER, PENSTOCK
from penstock.benchmarks.papers.economics.rivals import EqualDrop
from penstock.benchmarks.papers.economics.runs import FEW, WARM_S, FinishedRun, Verdict
from penstock.benchmarks.papers.evaluation import Progress, Row, in_turn, share
from penstock.model.policy import Policy

GOAL = 0.9
SET = "loads are set by the model's own limits, instances are a configuration: see the rows of wider draws below"
WIDER = 3.0
"""Costs that no paper gives lie within this factor of what is assumed, or of each other, where they are wider."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario's module, what it is called, what the paper shows, its rival, and when nothing sheds any more."""

    module: ModuleType
    name: str
    shows: str
    rival: Policy[Any] | None
    rival_name: str
    calm_s: float


SCENARIOS = (
    Scenario(
        scenario_1, "Figure 3: both sinks shed, TDSnk1 moves", "shown", EqualDrop(), "an equal drop at all sources",
        WARM_S,
    ),
    Scenario(
        scenario_2, "Figure 4: KNN sheds, TDSnk1 sheds and moves", "shown", EqualDrop(), "an equal drop at all sources",
        scenario_2.BUSY_S,
    ),
    Scenario(scenario_3, "Figure 5: accuracy follows in 2 cycles", "shown", None, "nobody sheds", WARM_S),
)  # fmt: skip


def rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """Return the rows of all scenarios."""
    result = []
    for scenario in SCENARIOS:
        result += _rows(seed, seeds[:FEW], scenario, progress)
    return [*result, _slow_row(seed, seeds[:FEW], progress), *wider_rows(seed, seeds[:FEW], progress)]


def _rows(seed: int, seeds: Sequence[int], scenario: Scenario, progress: Progress) -> list[Row]:
    scene: Callable[..., FinishedRun] = scenario.module.scene
    paper, ours, rival, acts = [], [], [], []
    for draw in in_turn(seeds, scenario.name, progress):
        figures = parameters(draw)
        paper.append(scenario.module.verdict(figures, scene(figures, PAPER, draw)))
        ours.append(scenario.module.verdict(figures, scene(figures, PENSTOCK, draw)))
        rival.append(scenario.module.verdict(figures, scene(figures, scenario.rival, draw)).holds)
        calm = scene(figures, PAPER, draw, rises=False)
        acts.append(bool(calm.moves()) or calm.sheds(scenario.calm_s, float("inf")))
    control = share(acts)

    def row(name: str, verdicts: Sequence[Verdict]) -> Row:
        held = share([verdict.holds for verdict in verdicts])
        return Row(
            seed, name, scenario.shows, f">= {GOAL} of draws", held, share(rival), control,
            held.median >= GOAL and control.median <= 0.05,
            note=f"baseline: {scenario.rival_name}; control: draws with a drop or a move while no load rises; "
            f"{_missed(verdicts)}",
            softened=SET if scenario.module is scenario_1 else "",
        )  # fmt: skip

    return [row(scenario.name, paper), row(f"the same, lag-aware ({scenario.name.split(':')[0]})", ours)]


def wider_rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """Figure 3 on what the row above leaves out: the other configuration, wider costs, loads that no limit sets.

    Its loads are set by the model's own limits, and its costs so that half of TDSnk1 is the smaller instance.
    """

    def other(draw: int) -> Parameters:
        return parameters(draw).having(taxi__sink_1_instances=1, taxi__sink_2_instances=2)

    def wide(draw: int) -> Parameters:
        random = np.random.default_rng([draw, 4])
        ratio, cost = np.exp(random.uniform(np.log(1 / WIDER), np.log(WIDER), 2))
        cpu_s = float(parameters(None).value("taxi", "sink_2_cpu_s"))
        return parameters(draw).having(taxi__sink_1_over_2=float(ratio), taxi__sink_2_cpu_s=float(cost) * cpu_s)

    def free(figures: Parameters, policy: Policy[Any], draw: int) -> FinishedRun:
        return scenario_1.scene_of(figures, policy, draw, scenario_1.free_loads(taxi(figures), draw))

    run = scenario_1.scene
    variants: Sequence[tuple[str, str, Callable[[int], Parameters], Callable[..., FinishedRun]]] = (
        ("TDSnk1 x1, TDSnk2 x2", "the other configuration", other, run),
        (f"costs x1/{WIDER:g} to x{WIDER:g}", "TDSnk2's cost and TDSnk1's over it", wide, run),
        ("loads drawn", "loads of 1.05 to 3.2 times what a machine carries", parameters, free),
    )
    result = []
    for name, what, drawn, scene in variants:
        verdicts = []
        for draw in in_turn(seeds, f"Figure 3, {name}", progress):
            values = drawn(draw)
            verdicts.append(scenario_1.verdict(values, scene(values, PAPER, draw)))
        held = share([verdict.holds for verdict in verdicts])
        result.append(
            Row(
                seed, f"Figure 3, {name}: both sinks shed, TDSnk1 moves", "shown", "-", held,
                note=f"{what}; {_missed(verdicts)}",
            )
        )  # fmt: skip
    return result


def _slow_row(seed: int, seeds: Sequence[int], progress: Progress) -> Row:
    """Load creeps over the limit: what lacks is then less than a source takes, and Algorithm 2 moves the smallest."""
    moved = []
    for draw in in_turn(seeds, "Figure 3, load rises slowly", progress):
        figures = parameters(draw)
        slow = scenario_1.slow_loads(figures, taxi(figures))
        first = scenario_1.scene_of(figures, PAPER, draw, slow).moves()[:1]
        moved.append(bool(first) and first[0].task == "TDSnk1")
    return Row(
        seed, "Figure 3, load rises slowly: TDSnk1 is first to move", "-", "-", share(moved),
        note="in the other draws a source moves: it is smaller, and what lacks is no more than it takes",
    )  # fmt: skip


def _missed(verdicts: Sequence[Verdict]) -> str:
    """Return what did not come about, and in how many draws."""
    count = Counter(name for verdict in verdicts for name in verdict.missing())
    parts = [f"{name} in {times}" for name, times in count.most_common()]
    return f"not so, of {len(verdicts)} draws: {', '.join(parts)}" if parts else f"so in all {len(verdicts)} draws"
