"""Pauses, restarts and restores of an action, and their times. Called by `actions`."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.tallies import tally
from penstock.benchmarks.papers.cluster_model.topology import Indices, Layout
from penstock.model.columns import Floats


@dataclass(frozen=True, slots=True)
class Restore:
    """Costs of an action; ``restarted``: slots of instances that pause, and at its end restart with empty caches."""

    restarted: Indices
    bytes: float
    accesses: float
    duration_s: float


def restore_of(
    cluster: Cluster, after: Layout, tasks: Collection[int], moved: Collection[int], applications: Collection[int]
) -> Restore:
    """Return what it takes to come to the layout ``after``.

    t = t_fixed + max over instances of (accesses x t_access + bytes / bandwidth)

    ``tasks`` change, instances in the slots ``moved`` begin somewhere else, ``applications`` restart.
    """
    spec = cluster.spec.actions
    graph = cluster.graph
    own = set(tasks)
    affected = set(applications) | {int(graph.application[task]) for task in tasks}
    if spec.scope == "application":
        chosen = [task for task in range(len(cluster.spec.tasks)) if int(graph.application[task]) in affected]
    else:
        given = {task for task in range(len(cluster.spec.tasks)) if int(graph.application[task]) in applications}
        chosen = sorted(own | given)
    restarted, worst_s, total, accesses = [np.zeros(0, np.int64)], 0.0, 0.0, 0.0
    for task in chosen:
        first, count = int(graph.task_slot[task]), max(len(after.machines[task]), cluster.layout.parallelism(task))
        slots = first + np.arange(count)
        loaded, buckets = _loaded(cluster, after, task, moved, spec.restores == "all")
        is_moved = np.isin(slots, list(moved)) | (np.pad(buckets, (0, count - len(buckets))) > 0)
        here = is_moved if spec.scope == "live" else np.ones(count, np.bool_)
        restarted.append(slots[here])
        reads = buckets * spec.accesses_per_bucket + (buckets > 0) * spec.accesses_per_instance
        worst_s = max(worst_s, float((reads * spec.access_s + loaded / spec.restore_bytes_per_s).max(initial=0.0)))
        total += float(loaded.sum())
        accesses += float(reads.sum())
    return Restore(np.concatenate(restarted), total, accesses, spec.fixed_s + worst_s)


def _loaded(cluster: Cluster, after: Layout, task: int, moved: Collection[int], is_all: bool) -> tuple[Floats, Floats]:
    """Return the bytes and the buckets that each instance of a task must load."""
    count = len(after.machines[task])
    state = cluster.states.get(task)
    if state is None:
        return np.zeros(count), np.zeros(count)
    owners = after.owners[task]
    slots = cluster.graph.task_slot[task] + owners
    comes = (
        np.ones(len(owners), np.bool_)
        if is_all
        else (owners != cluster.layout.owners[task]) | np.isin(slots, list(moved))
    )
    return tally(owners, state.bucket_bytes * comes, count), tally(owners, comes, count).astype(np.float64)
