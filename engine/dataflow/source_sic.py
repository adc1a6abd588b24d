"""SIC at one source instance: what its records stand for, what is generated, and what of it goes on.

A record that is read counts as generated, whether it stays or not. The rows that stay of a read share the SIC of its
records; where none does, the next rows take it along, or the next watermark. What was dropped goes along beside it, so
that results know of it as soon as they can.
"""

import numpy as np

from penstock.engine.core.elements import Sic
from penstock.model.columns import Floats
from penstock.model.sampling import Sampled, Sampler
from penstock.model.sic import SicTerms


class SourceSic:
    """SIC by query, and sums of it since the instance began."""

    def __init__(self, source: str, terms: SicTerms) -> None:
        """Begin with nothing generated."""
        self._source = source
        self.generated: Floats = np.zeros(len(terms.queries))
        """Of all records that were read."""
        self.admitted: Floats = np.zeros(len(terms.queries))
        """Of those that were not dropped."""
        # By query, and behind that what was dropped by query (`Sic`).
        self._carried: Floats = np.zeros(2 * len(terms.queries))
        self.set_terms(terms)

    def set_terms(self, terms: SicTerms) -> None:
        """Let records from now on have the SIC of these terms."""
        self._row: Floats = np.array(terms.row_sic.get(self._source, [0.0] * len(terms.queries)), np.float64)
        groups = [group for group in terms.groups if group.source == self._source and group.branches]
        self._ways = [(frozenset(group.branches), np.array(group.queries, np.intp)) for group in groups]

    def read(self, records: int, held: Sampler | Sampled | None) -> None:
        """Count records that were read at the rates that were ``held`` (None: all stay)."""
        sic = self._row * records
        self.generated += sic
        half = len(self._carried) // 2
        kept, lost = self._carried[:half], self._carried[half:]
        if held is not None and held.keep <= 0.0:
            lost += sic
            return
        dropped_at = () if held is None else [name for name, rate in held.branches.items() if rate == 0.0]
        if dropped_at:
            full = sic.copy()
            for branches, queries in self._ways:
                if not branches.isdisjoint(dropped_at):
                    sic[queries] = 0.0
            lost += full - sic
        self.admitted += sic
        kept += sic

    def has_lost(self) -> bool:
        """Return whether something was dropped that nobody behind knows of yet."""
        return bool(self._carried[len(self._carried) // 2 :].any())

    def take(self) -> Sic:
        """Return the SIC of what was read since the last call, and of what of it was dropped."""
        taken = tuple(self._carried.tolist())
        self._carried[:] = 0.0
        return taken if any(taken) else ()
