"""Faults of what a head and its task managers say to each other, drawn from the seed."""

from collections.abc import Sequence

from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.faults import Faults


class ControlFaults:
    """The fate of envelopes: some are lost, some come twice, some late, so that others overtake them."""

    def __init__(self, dice: Dice, faults: Faults) -> None:
        """Draw how bad this run is."""
        self._dice, self._faults = dice, faults
        self._lost = 0.1 * dice.uniform() if faults.cut and dice.chance(0.7) else 0.0
        self._twice = 0.2 * dice.uniform() if faults.delay and dice.chance(0.7) else 0.0

    def journeys(self) -> Sequence[int]:
        """Return how long each copy of an envelope is on its way; none: it is lost."""
        if self._dice.chance(self._lost):
            return ()
        copies = 2 if self._dice.chance(self._twice) else 1
        return [self.delay_ns() for _ in range(copies)]

    def delay_ns(self) -> int:
        """Return how long something is on its way."""
        if not self._faults.delay:
            return 50_000
        fate = self._dice.uniform()
        most_ns = 200_000 if fate < 0.8 else 3_000_000 if fate < 0.97 else 600_000_000
        return self._dice.below(most_ns)
