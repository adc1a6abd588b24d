"""Rows of Figures 3 to 5: in which part of the draws everything comes about that the paper shows."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from penstock.benchmarks.papers.economics import scenario_1, scenario_2, scenario_3
from penstock.benchmarks.papers.economics.applications import parameters
from penstock.benchmarks.papers.economics.controllers import PAPER, PENSTOCK
from penstock.benchmarks.papers.economics.rivals import EqualDrop
from penstock.benchmarks.papers.economics.rows import FEW, each
from penstock.benchmarks.papers.economics.runs import WARM_S, Scene
from penstock.benchmarks.papers.evaluation import Progress, Row, share
from penstock.model.policy import Policy

GOAL = 0.9


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


def rows(seed: int, seeds: Sequence[int], told: Progress) -> list[Row]:
    """Return the rows of all scenarios."""
    found = []
    for scenario in SCENARIOS:
        found += _rows(seed, seeds[:FEW], scenario, told)
    return [*found, _slow_row(seed, seeds[:FEW], told)]


def _rows(seed: int, seeds: Sequence[int], scenario: Scenario, told: Progress) -> list[Row]:
    scene: Callable[..., Scene] = scenario.module.scene
    paper, ours, rival, acts = [], [], [], []
    for draw in each(seeds, scenario.name, told):
        drawn = parameters(draw)
        paper.append(scenario.module.verdict(drawn, scene(drawn, PAPER, draw)))
        ours.append(scenario.module.verdict(drawn, scene(drawn, PENSTOCK, draw)))
        rival.append(scenario.module.verdict(drawn, scene(drawn, scenario.rival, draw)).holds)
        calm = scene(drawn, PAPER, draw, rises=False)
        acts.append(bool(calm.moves()) or calm.sheds(scenario.calm_s, float("inf")))
    control = share(acts)

    def row(name: str, verdicts: Sequence[Any]) -> Row:
        held = share([verdict.holds for verdict in verdicts])
        return Row(
            seed, name, scenario.shows, f">= {GOAL} of draws", held, share(rival), control,
            held.median >= GOAL and control.median <= 0.05,
            note=f"baseline: {scenario.rival_name}; control: draws with a drop or a move while no load rises; "
            f"{_missed(verdicts)}",
        )  # fmt: skip

    return [row(scenario.name, paper), row(f"the same, lag-aware ({scenario.name.split(':')[0]})", ours)]


def _slow_row(seed: int, seeds: Sequence[int], told: Progress) -> Row:
    """Load creeps over the limit: what lacks is then less than a source takes, and Algorithm 2 moves the smallest."""
    moved = []
    for draw in each(seeds, "Figure 3, load rises slowly", told):
        first = scenario_1.slow_scene(parameters(draw), PAPER, draw).moves()[:1]
        moved.append(bool(first) and first[0].task == "TDSnk1")
    return Row(
        seed, "Figure 3, load rises slowly: TDSnk1 is first to move", "-", "-", share(moved),
        note="in the other draws a source moves: it is smaller, and what lacks is no more than it takes",
    )  # fmt: skip


def _missed(verdicts: Sequence[Any]) -> str:
    """Return what did not come about, and in how many draws."""
    count = Counter(name for verdict in verdicts for name in verdict.__slots__ if not getattr(verdict, name))
    parts = [f"{name.replace('_', ' ')} in {times}" for name, times in count.most_common()]
    return f"not so, of {len(verdicts)} draws: {', '.join(parts)}" if parts else f"so in all {len(verdicts)} draws"
