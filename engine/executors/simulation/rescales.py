"""Changes of parallelism in a simulated job: asked for at random, as a user would."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.jobs.rescale_orders import RescaleOrders, RescaleSummary
from penstock.engine.moves.live_changes import LiveChange, live_change
from penstock.engine.plan.planner import lies_by_key
from penstock.engine.plan.recut import instances_by_name, recut
from penstock.model.errors import OptionError, PenstockError
from penstock.model.execution_graph import ExecutionGraph

MOST_ASKED = 6
"""So many are asked for in one seed: each begins the job anew."""

MOST_INSTANCES = 4

LIVE_CHANCE = 0.7
"""So often one is asked for that instances on task managers can come to while they run, if there is one."""


@dataclass
class RescaleCounts:
    """Counts of one seed, over all attempts and runs: key groups that ``moved``, ``live`` changes stop nothing.

    So many ``partitions`` of sources changed their instances in these.
    """

    asked: int = 0
    done: int = 0
    failed: int = 0
    moved: int = 0
    live: int = 0
    partitions: int = 0


class RandomRescales:
    """Orders that are given with a chance at each turn."""

    def __init__(self, dice: Dice, chance: float, key_groups: int, seed: int) -> None:
        """Begin without one; an operator has so many ``key_groups``, whose loads are drawn by the ``seed``."""
        self.counts = RescaleCounts()
        self._dice, self._chance, self._key_groups, self._seed = dice, chance, key_groups, seed
        self._asked: Future[RescaleSummary] | None = None

    def look(self, graph: ExecutionGraph, orders: RescaleOrders) -> None:
        """Ask for another number of instances of an operator, if none is on its way and the dice say so."""
        if self._asked is not None or self.counts.asked >= MOST_ASKED or not self._dice.chance(self._chance):
            return
        wanted = changes(graph)
        if self._dice.chance(LIVE_CHANCE):
            wanted = [item for item in wanted if is_live(graph, item)] or wanted
        if not wanted:
            return
        try:
            wish = self._dice.choose(wanted)
            asked = orders.ask(wish, self._loads(wish)).answer
        except PenstockError:
            # The job is about to end.
            return
        self.counts.asked += 1
        self._asked = asked
        asked.add_done_callback(self._over)

    def _loads(self, wish: Mapping[str, int]) -> dict[str, list[float]]:
        """Return loads of key groups for half of the orders; they take nothing from the dice of others."""
        drawn = np.random.default_rng([self._seed, self.counts.asked])
        if drawn.random() < 0.5:
            return {}
        return dict.fromkeys(wish, drawn.pareto(1.0, self._key_groups).tolist())

    def forget(self) -> None:
        """The process is gone that the last one was asked of, and nobody answers."""
        self._asked = None

    def _over(self, asked: "Future[RescaleSummary]") -> None:
        self._asked = None
        if asked.exception() is None:
            self.counts.done += 1
            self.counts.moved += asked.result().key_groups_moved
            self.counts.live += asked.result().live
            self.counts.partitions += asked.result().partitions_moved
        else:
            self.counts.failed += 1


def changes(graph: ExecutionGraph) -> list[dict[str, int]]:
    """Return what may be asked for: another number of instances of an operator, or of all that have state together."""
    keyed = [node.name for node in graph.graph.operators.values() if lies_by_key(graph, node)]
    sets = [[name] for name in sorted(instances_by_name(graph))] + ([keyed] if len(keyed) > 1 else [])
    wanted = [dict.fromkeys(names, count) for names in sets for count in range(1, MOST_INSTANCES + 1)]
    return [item for item in wanted if _after(graph, item) is not None]


def is_live(graph: ExecutionGraph, change: Mapping[str, int]) -> bool:
    """Return whether operators can come to so many instances while the job runs."""
    after = _after(graph, change)
    return after is not None and isinstance(live_change(graph, after), LiveChange)


def _after(graph: ExecutionGraph, change: Mapping[str, int]) -> ExecutionGraph | None:
    try:
        return recut(graph, change, MOST_INSTANCES)
    except OptionError:
        return None
