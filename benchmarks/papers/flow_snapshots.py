"""Large snapshots on which Flink-ER has work in every application: `large_snapshot` with lag, buckets and uneven load.

What `decision_speed` times `flink-er` on.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.large_snapshots import SnapshotSize, large_snapshot
from penstock.model.snapshot import BucketColumns, ClusterSnapshot

GROW, MOVE, ROUTE = 0, 1, 2
"""Needs of an application, by its number: instances, other owners of buckets, or other routes."""

_KINDS = 3
_DRAIN_S, _ACTION_S = 20.0, 5.0
"""Time in which waiting rows must be gone, with what comes during an action: as `FlinkEr` has it by default."""


def flow_snapshot(size: SnapshotSize, seed: int = 0) -> ClusterSnapshot:
    """Return a snapshot of this size in which all sources lag by 10 to 20 s, and half of the cores are free."""
    snapshot, rng = large_snapshot(size, seed), np.random.default_rng([seed, 2])
    tasks, instances, partitions = snapshot.tasks, snapshot.instances, snapshot.partitions
    assert partitions.appended is not None and partitions.end_offset is not None and instances.records_in is not None
    each = size.instances // size.tasks
    wall_ns = snapshot.window_s * 1e9
    lag_s = rng.uniform(10.0, 20.0, size.sources)
    source = tasks.application[instances.task] % size.sources
    need = _need_for_a_row(snapshot, lag_s)[source]
    kind = (tasks.application % _KINDS)[instances.task]
    is_free = _takes_free_edges(snapshot)[instances.task]
    is_uneven = np.where(is_free, kind == ROUTE, kind == MOVE) & ~tasks.is_source[instances.task]
    # The first instance has twice its share of the load, the last the less for it.
    tilt = np.linspace(1.0, -1.0, each)[instances.number]
    share = 1.0 + np.where(is_uneven, 0.9, 0.03) * tilt
    records_in = instances.records_in * share
    of_need = np.where(kind == GROW, rng.uniform(0.6, 0.9, len(instances)), 1.5)
    wanted_ns = wall_ns * share / (of_need * need)
    loaded = replace(
        instances,
        records_in=records_in,
        busy_ns=0.8 * wanted_ns,
        core_wait_ns=0.2 * wanted_ns,
        output_wait_ns=np.zeros(len(instances)),
        input_wait_ns=wall_ns - wanted_ns,
    )
    lag_of = lag_s[instances.task[partitions.instance]]
    position = partitions.end_offset - lag_of * partitions.appended / snapshot.window_s
    cpu_percent = snapshot.machines.cpu_percent
    assert cpu_percent is not None
    return replace(
        snapshot,
        machines=replace(snapshot.machines, cores=cpu_percent / 50.0),
        instances=loaded,
        partitions=replace(partitions, position=position),
        buckets=_buckets(rng, snapshot, records_in, each),
    )


def _need_for_a_row(snapshot: ClusterSnapshot, lag_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, by source, the rows that should have been taken for one that was."""
    tasks, instances = snapshot.tasks, snapshot.instances
    assert tasks.target_rate is not None and instances.records_in is not None
    count = len(lag_s)
    taken = np.bincount(instances.task, instances.records_in, len(tasks))[:count] / snapshot.window_s
    return np.asarray(tasks.target_rate[:count] * (1.0 + (_ACTION_S + lag_s) / _DRAIN_S) / taken, np.float64)


def _takes_free_edges(snapshot: ClusterSnapshot) -> NDArray[np.bool_]:
    edges, tasks = snapshot.edges, len(snapshot.tasks)
    fixed = np.bincount(edges.consumer, ~edges.is_free, tasks)
    return np.asarray((fixed == 0) & ~snapshot.tasks.is_source, np.bool_)


def _buckets(
    rng: np.random.Generator, snapshot: ClusterSnapshot, records_in: NDArray[np.float64], each: int
) -> BucketColumns:
    """Return the buckets of all keyed tasks: the rows of an instance come for its own, unevenly."""
    tasks = snapshot.tasks
    keyed = np.flatnonzero(tasks.is_keyed)
    task = np.repeat(keyed, tasks.key_groups[keyed])
    bucket = np.concatenate([np.arange(groups) for groups in tasks.key_groups[keyed].tolist()])
    owner = task * each + bucket % each
    weight = rng.uniform(0.5, 1.5, len(task))
    rows = records_in[owner] * weight / np.bincount(owner, weight, len(records_in))[owner]
    state = rng.uniform(0.5e6, 2e6, len(task))
    return BucketColumns(task.astype(np.int32), bucket.astype(np.int32), owner.astype(np.int32), rows, state)
