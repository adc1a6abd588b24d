"""Sampled stack distances of accesses to state, as an instrumented cache would report them. Called by `snapshots`.

They come from the trace that the simulated caches follow, so that a policy can find out how memory and hits go together
without being told.
"""

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.tallies import floats, ints
from penstock.benchmarks.papers.cluster_model.totals import Totals
from penstock.model.snapshot import ReuseColumns

BINS = 32
"""Distances are told apart in equal parts of the keys that an instance owns."""


def reuse_of(cluster: Cluster, counted: Totals, tasks: int) -> ReuseColumns:
    """Return what was sampled of the accesses that were counted: of each distance, and of first accesses.

    A count is Poisson around the sampled part of the true one, scaled up again.
    """
    part = cluster.spec.reports.sample_share
    task, distance, accesses = [], [], []
    for number, state in cluster.states.items():
        if number >= tasks:
            continue
        first = cluster.graph.task_slot[number]
        slots = slice(first, first + cluster.spec.tasks[number].most_parallelism)
        total = counted.cache_hits[slots].sum() + counted.cache_misses[slots].sum()
        own_bytes = state.bucket_bytes.sum() / cluster.layout.parallelism(number)
        edges = np.linspace(0.0, 1.0, BINS + 1)
        again = np.diff(state.curve(edges)) * total * (1 - state.fresh_share)
        expected = np.append(again, total * state.fresh_share)
        task += [number] * (BINS + 1)
        distance += [*(edges[1:] * own_bytes).tolist(), float("nan")]
        accesses += (cluster.reporting.poisson(expected * part) / part).tolist()
    if not task:
        return ReuseColumns.none()
    return ReuseColumns(ints(task), floats(distance), floats(accesses))
