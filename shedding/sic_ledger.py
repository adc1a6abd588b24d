"""A ledger of SIC by query over the source time window (docs/design/papers/dissp.md 4).

A node enters the SIC that leaves its input buffer for processing, shed or not; a coordinator enters results.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats


@dataclass(frozen=True, slots=True, eq=False)
class SicLedger:
    """SIC entered in the last intervals of the source time window, oldest first; one value per query."""

    entries: tuple[Floats, ...]

    @classmethod
    def empty(cls, intervals: int, queries: int) -> "SicLedger":
        """Return the empty ledger of a window of this many shedding intervals.

        Raises:
            ValueError: the window has less than an interval.
        """
        if intervals < 1:
            raise ValueError(f"a window has at least one interval, not {intervals}")
        return cls((np.zeros(queries),) * intervals)

    def after(self, sic: Floats) -> "SicLedger":
        """Return the ledger after an interval in which ``sic`` was entered; the oldest interval leaves."""
        return SicLedger((*self.entries[1:], np.asarray(sic, np.float64)))

    def total(self) -> Floats:
        """Return the SIC of the whole window, by query."""
        return _sum(self.entries)

    def still_valid(self, ahead: int = 1) -> Floats:
        """Return the SIC that will still be in the window ``ahead`` intervals later, if no more is entered."""
        return _sum(self.entries[ahead:]) if ahead < len(self.entries) else np.zeros_like(self.entries[0])

    def last(self, intervals: int) -> Floats:
        """Return the SIC entered in the last ``intervals``; of all if the window has no more."""
        return _sum(self.entries[-intervals:]) if intervals else np.zeros_like(self.entries[0])


def _sum(entries: tuple[Floats, ...]) -> Floats:
    # One addition an interval: stacking them first would copy the window.
    total = entries[0].copy()
    for entry in entries[1:]:
        total += entry
    return total
