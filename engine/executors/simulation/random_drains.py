"""Task managers of a simulated job that are drained and added: asked for at random, as a user would."""

from dataclasses import dataclass

from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.jobs.manager_orders import ManagerOrders
from penstock.model.errors import PenstockError

MOST_ASKED = 6
"""So many orders are given in one seed: each that adds one may begin the job anew."""


@dataclass
class DrainCounts:
    """Counts of one seed: drains that were ``asked`` for, and ``live`` ones, which have stopped nothing."""

    asked: int = 0
    live: int = 0


class RandomDrains:
    """Orders that are given with a chance at each turn."""

    def __init__(self, dice: Dice, chance: float, most: int) -> None:
        """Begin without one; there are ``most`` task managers at most."""
        self.counts = DrainCounts()
        self._dice, self._chance, self._most = dice, chance, most
        self._given = 0

    def look(self, orders: ManagerOrders) -> None:
        """Let a task manager go, or others come, if the dice say so."""
        if self._given >= MOST_ASKED or not self._dice.chance(self._chance):
            return
        try:
            known = orders.known()
            if known.leaving:
                return
            if len(known.live) > 1 and self._dice.chance(0.7):
                orders.drain(self._dice.choose(list(known.live)))
                self.counts.asked += 1
            else:
                orders.resize(max(len(known.live), self._dice.between(2, self._most)))
            self._given += 1
        except PenstockError:
            # The job is about to end.
            return

    def hear(self, text: str) -> None:
        """Take in a notice of the job to its user."""
        self.counts.live += text.startswith("DRAINED")
