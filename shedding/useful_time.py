"""The time of a loop as what its instances use up, for load shedding: useful time and throughput in place of CPU.

An instance that waits within its steps, for a disk, a blocking call or foreign processes, keeps the others of its loop
from their turn as if it worked, and fewer rows give that time back. So does a loop that rests as it has used up the
cores that it may use. Pure; called before the policy.
"""

from dataclasses import replace

import numpy as np

from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.group_sums import total


def with_useful_time(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return a snapshot whose CPU is the time for which each instance had its loop, and whose machines are their loops.

    CPU of other threads of a process is none of its loop's, and what foreign processes take of its core makes steps
    longer; so the load of a machine is what its instances take. One that was not measured stays unknown. What a loop
    rests for is of its instances, by what they take: each row costs that much of it.
    """
    instances, machines = snapshot.instances, snapshot.machines
    if instances.busy_ns is None or machines.cpu_percent is None:
        return snapshot
    runs = instances.is_running & ~np.isnan(instances.busy_ns)
    taken = total(instances.busy_ns[runs], instances.machine[runs], len(machines)) / snapshot.window_s / 1e7
    rests = np.zeros(len(machines)) if machines.rest_percent is None else machines.rest_percent
    rests = np.where((rests >= 0) & (rests <= 100), rests, 0.0)
    with_rests = np.divide(taken + rests, taken, np.ones(len(machines)), where=taken > 0)
    percent = np.where(np.isnan(machines.cpu_percent), np.nan, np.minimum(taken * with_rests, 100.0 * machines.cores))
    return replace(
        snapshot,
        instances=replace(instances, cpu_ns=instances.busy_ns * with_rests[instances.machine]),
        machines=replace(machines, cpu_percent=percent),
    )
