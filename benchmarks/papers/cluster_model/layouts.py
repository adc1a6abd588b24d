"""Layouts of instances and buckets: the first one, and the owners of buckets after a change of parallelism."""

import numpy as np

from penstock.benchmarks.papers.cluster_model.spec import ClusterSpec
from penstock.benchmarks.papers.cluster_model.topology import Indices, Layout, bucket_shares
from penstock.model.columns import Floats
from penstock.model.key_groups import assign, reassign


def first_layout(spec: ClusterSpec, seed: int) -> Layout:
    """Place the instances of all tasks: on the machines that their specs name, in turn, or where most room is."""
    layout = Layout([[] for _ in spec.tasks], {}, {}, {})
    names = {machine.name: index for index, machine in enumerate(spec.machines)}
    for task, item in enumerate(spec.tasks):
        for number in range(item.parallelism):
            machine_name = names[item.machines[number % len(item.machines)]] if item.machines else None
            layout.machines[task].append(roomiest(spec, layout, 0.0) if machine_name is None else machine_name)
        if item.is_keyed:
            layout.owners[task] = assign(item.key_groups, item.parallelism).astype(np.int64)
            layout.bucket_shares[task] = bucket_shares(item.key_groups, item.zipf, seed + task)
    return layout


def roomiest(spec: ClusterSpec, layout: Layout, time_s: float) -> int:
    """Return the machine, of those that are there, with the fewest instances a core."""
    used = instances_on(spec, layout)
    cores = np.array([machine.cores for machine in spec.machines])
    is_there = np.array([machine.joins_s <= time_s < machine.leaves_s for machine in spec.machines])
    return int(np.argmin(np.where(is_there, (used + 1) / cores, np.inf)))


def instances_on(spec: ClusterSpec, layout: Layout) -> Floats:
    """Return how many instances each machine has."""
    placed = [machine for machines in layout.machines for machine in machines if machine >= 0]
    return np.bincount(np.array(placed, np.int64), minlength=len(spec.machines)).astype(np.float64)


def owners_for(how: str, owners: Indices, before: int, after: int) -> Indices:
    """Return who owns each bucket after a change of parallelism.

    Raises:
        ValueError: ``how`` is none of "sticky", "ranges" and "modulo".
    """
    if how == "sticky":
        return reassign(owners.astype(np.int32), after).astype(np.int64)
    if how == "ranges":
        return np.arange(len(owners)) * after // len(owners)
    if how == "modulo":
        return np.arange(len(owners)) % after
    raise ValueError(f"owners are sticky, ranges or modulo, not {how!r}")
