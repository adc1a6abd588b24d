"""A ledger of SIC by query over the source time window (docs/design/papers/dissp.md 4).

A node enters what leaves its input buffer for processing, also when nothing is shed; a coordinator enters results.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats


@dataclass(frozen=True, slots=True, eq=False)
class SicLedger:
    """What was entered in the last intervals of the source time window, oldest first; one value a query each."""

    entries: tuple[Floats, ...]

    @classmethod
    def empty(cls, intervals: int, queries: int) -> "SicLedger":
        """Return the ledger of a window of so many shedding intervals in which nothing was entered.

        Raises:
            ValueError: the window has less than an interval.
        """
        if intervals < 1:
            raise ValueError(f"a window has at least one interval, not {intervals}")
        return cls((np.zeros(queries),) * intervals)

    def after(self, sic: Floats) -> "SicLedger":
        """Return the ledger once an interval is over in which this much was entered; the oldest one leaves."""
        return SicLedger((*self.entries[1:], np.asarray(sic, np.float64)))

    def total(self) -> Floats:
        """Return what the whole window holds, by query."""
        return _sum(self.entries)

    def still_valid(self, ahead: int = 1) -> Floats:
        """Return how much of it will be in the window so many intervals ahead, if nothing more is entered."""
        return _sum(self.entries[ahead:]) if ahead < len(self.entries) else np.zeros_like(self.entries[0])

    def last(self, intervals: int) -> Floats:
        """Return what the last so many intervals have entered; all of them if the window has no more."""
        return _sum(self.entries[-intervals:]) if intervals else np.zeros_like(self.entries[0])


def _sum(entries: tuple[Floats, ...]) -> Floats:
    # One addition an interval: stacking them first would copy the window.
    total = entries[0].copy()
    for entry in entries[1:]:
        total += entry
    return total
