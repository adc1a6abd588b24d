"""Changes of parallelism in a simulated job: asked for at random, as a user would, of one operator at a time."""

from concurrent.futures import Future
from dataclasses import dataclass

from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.jobs.rescale_orders import RescaleOrders, RescaleSummary
from penstock.engine.moves.live_changes import LiveChange, live_change
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
    """Counts of one seed, over all attempts and runs: key groups that ``moved``, ``live`` changes stop nothing."""

    asked: int = 0
    done: int = 0
    failed: int = 0
    moved: int = 0
    live: int = 0


class RandomRescales:
    """Orders that are given with a chance at each turn."""

    def __init__(self, dice: Dice, chance: float) -> None:
        """Begin without one."""
        self.counts = RescaleCounts()
        self._dice, self._chance = dice, chance
        self._asked: Future[RescaleSummary] | None = None

    def look(self, graph: ExecutionGraph, orders: RescaleOrders) -> None:
        """Ask for another number of instances of an operator, if none is on its way and the dice say so."""
        if self._asked is not None or self.counts.asked >= MOST_ASKED or not self._dice.chance(self._chance):
            return
        wanted = [(name, count) for name in sorted(instances_by_name(graph)) for count in range(1, MOST_INSTANCES + 1)]
        if self._dice.chance(LIVE_CHANCE):
            wanted = [item for item in wanted if is_live(graph, *item)] or wanted
        try:
            asked = orders.ask(dict([self._dice.choose(wanted)])).answer
        except PenstockError:
            # The job is about to end.
            return
        self.counts.asked += 1
        self._asked = asked
        asked.add_done_callback(self._over)

    def forget(self) -> None:
        """The process is gone that the last one was asked of, and nobody answers."""
        self._asked = None

    def _over(self, asked: "Future[RescaleSummary]") -> None:
        self._asked = None
        if asked.exception() is None:
            self.counts.done += 1
            self.counts.moved += asked.result().key_groups_moved
            self.counts.live += asked.result().epoch == 0 and asked.result().stopped_ms == 0
        else:
            self.counts.failed += 1


def is_live(graph: ExecutionGraph, name: str, count: int) -> bool:
    """Return whether an operator can come to so many instances while the job runs."""
    try:
        after = recut(graph, {name: count}, MOST_INSTANCES)
    except OptionError:
        return False
    return isinstance(live_change(graph, after), LiveChange)
