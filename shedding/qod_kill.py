"""Which instances leave a machine that cannot keep all minimums, and where they find room: Algorithm 2, repaired.

Stream-Economics, section 5.1; `qod` calls it. A destination is looked for first, since to stop an instance that fits
nowhere helps nobody.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace

import numpy as np

from penstock.model.columns import Floats
from penstock.shedding.by_group import Counts
from penstock.shedding.task_graph import Indexes


def sparing_order(machine: Counts, p: Floats, min_req_cpu: Floats) -> Indexes:
    """Return the instances machine by machine, the important first and then the large ones: as they are spared."""
    return np.lexsort((-min_req_cpu, -p, machine))


def kill_tasks(need: float, p: Sequence[float], min_req_cpu: Sequence[float]) -> tuple[list[int], float]:
    """Return which instances of a machine must leave it so that `need` percent of CPU is released, and what that is.

    p: priority of each; min_req_cpu: minReqCpu of each; both in `sparing_order`. Low priorities go first, and none goes
    that could be spared. All go if that is still too little.
    """
    first, released = len(min_req_cpu), 0.0
    while first and released < need:
        level = p[first - 1]
        while first and p[first - 1] == level:
            first -= 1
            released += min_req_cpu[first]
    killed = []
    for at in range(first, len(min_req_cpu)):
        if released - min_req_cpu[at] >= need:
            released -= min_req_cpu[at]
        else:
            killed.append(at)
    return killed, released


def reserve(room: Floats, min_req_cpu: Sequence[float]) -> list[int | None]:
    """Return the machine at which room is reserved for each instance, None for one that fits nowhere.

    room(tm) = 100 * nCores - foreign CPU - sum of minReqCpu on tm, percent; NaN where nothing may go. The largest
    instance chooses first, the machine with the most room.
    """
    heap = [(-left, machine) for machine, left in enumerate(room.tolist()) if left > 0]
    heapify(heap)
    found: list[int | None] = [None] * len(min_req_cpu)
    for i in sorted(range(len(min_req_cpu)), key=lambda i: -min_req_cpu[i]):
        if heap and -heap[0][0] >= min_req_cpu[i]:
            left, machine = heap[0]
            heapreplace(heap, (left + min_req_cpu[i], machine))
            found[i] = machine
    return found
