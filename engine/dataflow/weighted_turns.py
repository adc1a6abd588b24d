"""Whose turn it is among receivers that are to get given shares of the rows: deterministic, and smooth. Pure."""

from collections.abc import Sequence


class WeightedTurns:
    """Turns of receivers, each of which is owed its share of all rows so far, less what it got.

    Whoever is owed most comes next. With batches of at most b rows and n receivers nobody ever gets more than b rows
    above its share, nor is left more than (n - 1) * b below it.
    """

    def __init__(self, shares: Sequence[float], first: int = 0) -> None:
        """``shares`` are >= 0, one at least is greater, and only their proportion counts.

        Of receivers that are owed the same the first one counted from ``first`` on comes, so that several producers do
        not all begin with the same one.
        """
        total = sum(shares)
        self._shares = [share / total for share in shares]
        self._owed = [0.0] * len(self._shares)
        places = [(first + step) % len(self._shares) for step in range(len(self._shares))]
        self._order = [place for place in places if self._shares[place] > 0]
        self._next = self._order[0]
        self._choose()

    @property
    def next(self) -> int:
        """The number of the receiver whose turn it is; never one without a share."""
        return self._next

    def give(self, rows: int) -> None:
        """Take in that it got so many rows."""
        for place, share in enumerate(self._shares):
            self._owed[place] += share * rows
        self._owed[self._next] -= rows
        self._choose()

    def _choose(self) -> None:
        """Let the one come next that is owed most; of those that are owed the same, one with the greatest share."""
        self._next = max(self._order, key=lambda place: (self._owed[place], self._shares[place]))
