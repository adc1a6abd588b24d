"""SIC of one operator instance: what its input brought and its output has not taken along yet.

No operator knows of it. What comes in is held until the next rows leave, and goes with these; what has waited for an
interval without any leaves in a batch without rows. So it is conserved by whatever an operator does, a user's included
(docs/decisions/0112-operators-do-not-know-of-sic.md).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.engine.core.elements import Sic
from penstock.model.columns import Bools, Floats

HELD_NS = 250_000_000
"""How long SIC waits for rows to leave with: a shedding interval."""


class SicAccount:
    """SIC by query; of an operator without outputs, a sink, it adds up what has come for good."""

    __slots__ = ("_due_ns", "_held", "_shares", "holds", "outputs")

    def __init__(self, routes: Mapping[str, Sequence[Bools]]) -> None:
        """``routes``: of each output, in their order, the edges that leave it, and the queries behind each."""
        self.outputs = tuple(routes)
        self._shares: dict[str, tuple[Floats, Floats]] = {}
        for name, edges in routes.items():
            # What was dropped of a query goes where its SIC goes.
            behind = np.tile(np.array(edges, np.float64), 2)
            ways = behind.sum(axis=0)
            # A query that several edges lead to gets a part of it by each.
            self._shares[name] = behind / np.maximum(ways, 1.0), (ways == 0).astype(np.float64)
        self._held: Floats | None = None
        self._due_ns = 0
        self.holds = False
        """Whether anything waits to leave."""

    def take(self, sic: Sic, now_ns: int) -> None:
        """Take in the SIC of a batch."""
        if self._held is None:
            self._held = np.zeros(len(sic))
        self._held += sic
        if self.outputs and not self.holds:
            self.holds, self._due_ns = True, now_ns + HELD_NS

    def leave(self, output: str) -> list[Sic]:
        """Return what goes along each edge of an output, with the rows that leave it now; the rest stays."""
        if self._held is None or output not in self._shares:
            return []
        shares, stays = self._shares[output]
        leaving = [tuple(row) for row in (shares * self._held).tolist()]
        self._held *= stays
        self.holds = bool(self._held.any())
        return leaving

    def is_due(self, now_ns: int) -> bool:
        """Return whether something has waited long enough."""
        return self.holds and now_ns >= self._due_ns

    def has_lost(self) -> bool:
        """Return whether what waits says that something was dropped."""
        return self._held is not None and bool(self._held[len(self._held) // 2 :].any())

    def total(self) -> Sic:
        """Return what is held, by query: of a sink, all that has come."""
        return () if self._held is None else tuple(self._held[: len(self._held) // 2].tolist())

    def of(self, query: int) -> tuple[float, float]:
        """Return what is held of one query, and what says that so much of it was dropped."""
        if self._held is None:
            return 0.0, 0.0
        return float(self._held[query]), float(self._held[len(self._held) // 2 + query])
