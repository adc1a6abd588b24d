"""Large snapshots on which the scalers have work: `large_snapshot` with back-pressure and sampled stack distances.

What `decision_speed` times `ds2`, `autoscaler`, `justin` and `memory_choice` on.
"""

from dataclasses import replace

import numpy as np

from penstock.benchmarks.papers.large_snapshots import SnapshotSize, large_snapshot
from penstock.model.snapshot import ClusterSnapshot, ReuseColumns

BUCKETS = 60
"""Distances by stateful task: about eight doublings."""


def scaling_snapshot(size: SnapshotSize, seed: int = 0) -> ClusterSnapshot:
    """Return a snapshot of this size in which every operator is a bottleneck and has a histogram of distances."""
    snapshot, rng = large_snapshot(size, seed), np.random.default_rng(seed)
    window_ns = snapshot.window_s * 1e9
    instances = snapshot.instances
    busy = rng.uniform(0.65, 0.7, len(instances)) * window_ns
    pressed = replace(
        instances,
        busy_ns=busy,
        output_wait_ns=np.full(len(instances), 0.1 * window_ns),
        input_wait_ns=0.7 * window_ns - busy,
    )
    task = np.repeat(np.flatnonzero(snapshot.tasks.is_stateful), BUCKETS).astype(np.int32)
    distance = np.tile(2.0 ** (22 + np.arange(BUCKETS) / 8), len(task) // BUCKETS)
    distance[BUCKETS - 1 :: BUCKETS] = np.nan
    return replace(snapshot, instances=pressed, reuse=ReuseColumns(task, distance, rng.uniform(1, 100, len(task))))
