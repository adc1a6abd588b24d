"""A heap of machines by free CPU, updated as CPU is allocated.

Called by `placement`.
"""

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats


class FreeCpuHeap:
    """Machines by free CPU, percent; NaN excludes a machine. Ties go to the lower rank."""

    def __init__(self, free: Floats, ranks: NDArray[np.int64]) -> None:
        """Start from the free CPU, below 0 where a machine is overloaded."""
        self._free = free.tolist()
        self._ranks = ranks.tolist()
        self._heap = [(-cpu, self._ranks[m], m) for m, cpu in enumerate(self._free) if not np.isnan(cpu)]
        heapify(self._heap)

    def take(self, machine: int, cpu: float) -> None:
        """Allocate `cpu` percent of a machine."""
        self._free[machine] -= cpu
        if not np.isnan(self._free[machine]):
            heappush(self._heap, (-self._free[machine], self._ranks[machine], machine))

    def has(self, machine: int, cpu: float) -> bool:
        """Return whether a machine has this much CPU free."""
        return bool(self._free[machine] >= cpu)

    def is_near(self, machine: int, best: int, percent: float) -> bool:
        """Return whether a machine has as much free as another, but for so many percent of a core."""
        return bool(self._free[machine] >= self._free[best] - percent)

    def best_of(self, machines: Sequence[int]) -> int:
        """Return the machine of these with the most free CPU."""
        return min(machines, key=lambda m: (-self._free[m], self._ranks[m]))

    def best(self, exclude: Collection[int] = ()) -> int | None:
        """Return the machine with the most free CPU that is not in `exclude`; None if there is none."""
        excluded, best = [], None
        while self._heap and best is None:
            entry = self._heap[0]
            if -entry[0] != self._free[entry[2]]:
                heappop(self._heap)
            elif entry[2] in exclude:
                excluded.append(heappop(self._heap))
            else:
                best = entry[2]
        for entry in excluded:
            heappush(self._heap, entry)
        return best
