"""Whether a job keeps up with its input, or has time left: the evidence without which no rate is lowered. Pure.

The time that rows take is known only as it was measured, and a job that has just begun, or that has little to do, takes
more for each. If nothing waits, what is kept now can be done, whatever that time promises.
"""

import numpy as np

from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.group_sums import total, total_with_means
from penstock.shedding.source_backlog import SATURATED_PERCENT

WAITING_S = 0.5
"""Seconds of its input that may wait of a job that keeps up."""


def keeps_up(snapshot: ClusterSnapshot) -> bool:
    """Return whether hardly anything waits, in logs and before tasks; not if that is not known of a source or task."""
    partitions, instances = snapshot.partitions, snapshot.instances
    if partitions.end_offset is None or partitions.position is None or not len(partitions):
        return False
    if partitions.appended is None or instances.queue_rows is None or instances.records_in is None:
        return False
    count, length_s = len(snapshot.tasks), snapshot.window_s
    of_task = snapshot.instances.task[partitions.instance]
    lag = np.maximum(partitions.end_offset - partitions.position, 0.0)
    waiting = total_with_means(lag, of_task, count)
    offered = total_with_means(partitions.appended, of_task, count) / length_s
    runs = instances.is_running & ~snapshot.tasks.is_source[instances.task]
    if np.isnan(instances.queue_rows[runs] + instances.records_in[runs]).any():
        return False
    queued = total(instances.queue_rows[runs], instances.task[runs], count)
    taken = total(instances.records_in[runs], instances.task[runs], count) / length_s
    read = np.unique(of_task)
    logs_are_read = waiting[read] <= WAITING_S * offered[read]
    return bool(logs_are_read.all() and (queued <= WAITING_S * taken).all())


def falling_behind(snapshot: ClusterSnapshot) -> frozenset[str]:
    """Return the source tasks, by name, of which more waits than may, and that were offered more than they have read.

    Of one whose log or reads are not known nothing is said.
    """
    partitions, count = snapshot.partitions, len(snapshot.tasks)
    if partitions.end_offset is None or partitions.position is None or not len(partitions):
        return frozenset()
    if partitions.appended is None or partitions.consumed is None:
        return frozenset()
    of_task = snapshot.instances.task[partitions.instance]
    waiting = total_with_means(np.maximum(partitions.end_offset - partitions.position, 0.0), of_task, count)
    offered = total_with_means(partitions.appended, of_task, count)
    read = total_with_means(partitions.consumed, of_task, count)
    behind = (waiting > WAITING_S * offered / snapshot.window_s) & (offered > read)
    return frozenset(snapshot.tasks.name[task] for task in np.flatnonzero(behind).tolist())


def is_idle(snapshot: ClusterSnapshot) -> bool:
    """Return whether no loop is full: what waits then waits for something else, which is no quicker for fewer rows.

    Not if the load of a machine is not known on which something runs.
    """
    percent, instances = snapshot.machines.cpu_percent, snapshot.instances
    if percent is None:
        return False
    used = np.unique(instances.machine[instances.is_running])
    return bool((percent[used] < SATURATED_PERCENT * snapshot.machines.cores[used]).all())
