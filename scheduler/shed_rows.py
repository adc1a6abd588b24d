"""What shedders drop, which hides from scalers that capacity is short: nothing waits and nobody is held up.

It tells that there is a need; how much is needed is told by what was offered. Read by `busy_band` and `network_needs`.
"""

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.task_levels import task_levels
from penstock.scheduler.true_rates import or_nan

LEAST = 0.02
"""A smaller share is what readings of what was fetched and of what was taken differ by, and counts as none."""


def shed_shares(snapshot: ClusterSnapshot) -> Floats:
    """Return the share in [0, 1] of what was offered to each task that shedders before it dropped; 0 if unknown."""
    tasks, edges, outputs = len(snapshot.tasks), snapshot.edges, snapshot.outputs
    instances, partitions = snapshot.instances, snapshot.partitions
    consumed = np.nan_to_num(or_nan(partitions.consumed, len(partitions)))
    fetched = np.bincount(instances.task[partitions.instance], consumed, tasks)
    taken = np.bincount(instances.task, or_nan(instances.records_in, len(instances)), tasks)
    sent = np.nan_to_num(or_nan(outputs.records_out, len(outputs)))
    lost = np.nan_to_num(or_nan(outputs.dropped, len(outputs)))
    into = edges.consumer[outputs.edge]
    with np.errstate(divide="ignore", invalid="ignore"):
        of_source = np.where(snapshot.tasks.is_source & (fetched > 0), 1.0 - taken / fetched, 0.0)
        between = np.bincount(into, lost, tasks) / np.bincount(into, sent, tasks)
    share = np.clip(np.maximum(np.nan_to_num(of_source), np.nan_to_num(between)), 0.0, 1.0)
    return np.where(share >= LEAST, share, 0.0)


def sheds(snapshot: ClusterSnapshot, more_than: float) -> Bools:
    """Return the applications before one of whose tasks more than a share is dropped."""
    worst = np.zeros(len(snapshot.applications))
    np.maximum.at(worst, snapshot.tasks.application, shed_shares(snapshot))
    return np.asarray(worst > more_than)


def shed_below(snapshot: ClusterSnapshot) -> Floats:
    """Return for each task the largest share that is dropped before it or a task below it."""
    worst = shed_shares(snapshot)
    if not worst.any():
        return worst
    producer, consumer = snapshot.edges.producer, snapshot.edges.consumer
    for edges in reversed(task_levels(len(worst), producer, consumer)[1]):
        np.maximum.at(worst, producer[edges], worst[consumer[edges]])
    return worst
