"""The source of every choice of a simulated run: one seed, drawn in blocks as the scheduler asks at every turn."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

_BLOCK = 1_024


class Dice:
    """Repeatable choices of one seed."""

    def __init__(self, seed: int) -> None:
        """Begin the sequence of this seed."""
        self._rng = np.random.default_rng(seed)
        self._block: list[float] = []

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        if not self._block:
            self._block = self._rng.random(_BLOCK).tolist()
        return self._block.pop()

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return probability > 0.0 and self.uniform() < probability

    def below(self, bound: int) -> int:
        """Return a whole number in [0, bound)."""
        return int(self.uniform() * bound)

    def between(self, least: int, most: int) -> int:
        """Return a whole number in [least, most]."""
        return least + self.below(most - least + 1)

    def choose(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def fork(self) -> np.random.Generator:
        """Return a generator for others, whose draws do not change this sequence."""
        return np.random.default_rng(self._rng.integers(1 << 62))
