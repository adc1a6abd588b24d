"""The choice of instances that leave an overloaded machine, and of their new machines: Algorithm 2, repaired.

Stream-Economics, section 5.1; `qod` calls it. A destination is found first, since stopping an instance that fits
nowhere would gain nothing.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace

import numpy as np

from penstock.model.columns import Floats
from penstock.model.task_levels import Indexes
from penstock.shedding.group_sums import Counts


def sparing_order(machine: Counts, p: Floats, min_req_cpu: Floats) -> Indexes:
    """Return the instances machine by machine, in the order of being spared: high priority first, then large."""
    return np.lexsort((-min_req_cpu, -p, machine))


def kill_tasks(need: float, p: Sequence[float], min_req_cpu: Sequence[float]) -> tuple[list[int], float]:
    """Return the instances that must leave a machine to release `need` percent of CPU, and the CPU that they release.

    p: priority of each; min_req_cpu: minReqCpu of each; both in `sparing_order`. Low priorities go first, and none
    that could be spared. All go if even that is too little.
    """
    first, released = len(min_req_cpu), 0.0
    while first and released < need:
        level = p[first - 1]
        while first and p[first - 1] == level:
            first -= 1
            released += min_req_cpu[first]
    evicted = []
    for at in range(first, len(min_req_cpu)):
        if released - min_req_cpu[at] >= need:
            released -= min_req_cpu[at]
        else:
            evicted.append(at)
    return evicted, released


def reserve(room: Floats, min_req_cpu: Sequence[float]) -> list[int | None]:
    """Return the machine on which room is reserved for each instance, None for one that fits nowhere.

    room(tm) = 100 * nCores - foreign CPU - sum of minReqCpu on tm, percent; NaN where nothing may go. The largest
    instance chooses first, the machine with the most room.
    """
    heap = [(-room_left, machine) for machine, room_left in enumerate(room.tolist()) if room_left > 0]
    heapify(heap)
    targets: list[int | None] = [None] * len(min_req_cpu)
    for i in sorted(range(len(min_req_cpu)), key=lambda i: -min_req_cpu[i]):
        if heap and -heap[0][0] >= min_req_cpu[i]:
            room_left, machine = heap[0]
            heapreplace(heap, (room_left + min_req_cpu[i], machine))
            targets[i] = machine
    return targets
