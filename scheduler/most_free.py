"""The machine with the most free CPU, again and again while it is given away: a heap over machines.

Called by `placement`.
"""

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats


class MostFree:
    """Machines by free CPU, percent; those with NaN take nothing. Of equals the one of lower rank comes first."""

    def __init__(self, free: Floats, ranks: NDArray[np.int64]) -> None:
        """Begin with what is free; below 0 where a machine is overloaded."""
        self._free = free.tolist()
        self._ranks = ranks.tolist()
        self._heap = [(-left, self._ranks[m], m) for m, left in enumerate(self._free) if not np.isnan(left)]
        heapify(self._heap)

    def take(self, machine: int, cpu: float) -> None:
        """Give `cpu` percent of a machine away."""
        self._free[machine] -= cpu
        if not np.isnan(self._free[machine]):
            heappush(self._heap, (-self._free[machine], self._ranks[machine], machine))

    def has(self, machine: int, cpu: float) -> bool:
        """Return whether a machine has as much free."""
        return bool(self._free[machine] >= cpu)

    def best_of(self, machines: Sequence[int]) -> int:
        """Return which of these has the most free."""
        return min(machines, key=lambda m: (-self._free[m], self._ranks[m]))

    def best(self, but: Collection[int] = ()) -> int | None:
        """Return the machine that has the most free, of those that are not in `but`; None if there is none."""
        held, found = [], None
        while self._heap and found is None:
            entry = self._heap[0]
            if -entry[0] != self._free[entry[2]]:
                heappop(self._heap)
            elif entry[2] in but:
                held.append(heappop(self._heap))
            else:
                found = entry[2]
        for entry in held:
            heappush(self._heap, entry)
        return found
