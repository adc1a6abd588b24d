"""The bound of a paged operator's memory, which comes down to a lower budget as what is above it goes.

Kept by `bucket_store`: nothing is held up by a change, as it would be if all that is above went at once.
"""

import math
from dataclasses import replace
from typing import NamedTuple

from penstock.engine.paging.options import PagingOptions


class FreeMemory(NamedTuple):
    """Bytes that are free in memory, and those of buckets that may be let go at once."""

    free_bytes: float
    evictable_bytes: int


UNBOUNDED = FreeMemory(math.inf, 0)


class MemoryBound:
    """Options whose budget changes: ``options`` hold now, ``goal`` once what is above its budget has gone."""

    def __init__(self, options: PagingOptions) -> None:
        """Begin with these."""
        self._given = options
        self.options = self.goal = options

    @property
    def is_falling(self) -> bool:
        """Whether more may be in memory than the goal allows."""
        return self.options is not self.goal

    def set(self, budget_bytes: int | None) -> None:
        """Let a budget hold at once."""
        self.options = self.goal = replace(self._given, budget_bytes=budget_bytes)

    def approach(self, budget_bytes: int | None, there_bytes: int) -> None:
        """Let a greater budget hold at once, and begin to come down to a lower one; ``there_bytes`` are in memory.

        What is there fits until it goes, and what comes meanwhile finds no more room than there was.
        """
        self.goal, before_bytes = replace(self._given, budget_bytes=budget_bytes), self.options.budget_bytes
        if budget_bytes is None or (before_bytes is not None and budget_bytes >= before_bytes):
            self.options = self.goal
        else:
            self.lower(there_bytes, self.options.waiting_bytes)

    def lower(self, there_bytes: int, waiting_bytes: int) -> None:
        """Bound memory by what is there, and so many bytes of rows that wait, where that is above the goal."""
        page_bytes, waiting_bytes = self.goal.page_memory_bytes, max(waiting_bytes, self.goal.waiting_bytes)
        bound_bytes = page_bytes + there_bytes + waiting_bytes
        if self.options.budget_bytes is not None:
            bound_bytes = min(bound_bytes, self.options.budget_bytes)
        self.options = replace(self.goal, budget_bytes=bound_bytes, page_bytes=page_bytes, row_bytes=waiting_bytes)

    def reach(self) -> None:
        """Let the goal hold."""
        self.options = self.goal
