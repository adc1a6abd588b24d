"""The loads of key groups, by which they are dealt out to instances that come. Pure. Called by `size_orders`."""

from collections.abc import Collection, Mapping

import numpy as np

from penstock.engine.plan.planner import lies_by_key
from penstock.model.columns import Floats
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.snapshot import ClusterSnapshot


def loads_of(operators: Collection[str], graph: ExecutionGraph, snapshot: ClusterSnapshot) -> Mapping[str, list[float]]:
    """Return those of the key groups of operators, by their names, where they are known and differ.

    Of a task each key group must have been measured.
    """
    buckets, found = snapshot.buckets, dict[str, list[float]]()
    if buckets.records_in is None:
        return found
    for row, task in enumerate(graph.tasks):
        nodes = [graph.node(operator) for operator in task.operators]
        names = [node.name for node in nodes if node.name in operators and lies_by_key(graph, node)]
        own = np.flatnonzero(buckets.task == row) if names else np.empty(0, np.int64)
        order = own[np.argsort(buckets.bucket[own], kind="stable")]
        if not len(own) or not np.array_equal(buckets.bucket[order], np.arange(len(own))):
            continue
        loads = likely_loads(buckets.records_in[order])
        if loads is not None:
            found |= dict.fromkeys(names, loads.tolist())
    return found


def likely_loads(rows: Floats) -> Floats | None:
    """Return the loads that rows of a window tell of; None: they do not differ by more than chance, or are not known.

    Rows of a key group in a window scatter about its load by the root of it, so that their variance over all key groups
    is that of the loads and the mean of all. What chance alone makes of it is taken off: each load is drawn to the mean
    by the part of the variance that chance explains (James and Stein).
    """
    if not np.isfinite(rows).all() or not rows.sum() > 0:
        return None
    mean, variance = float(rows.mean()), float(rows.var())
    if variance <= mean:
        return None
    return np.asarray(mean + (1 - mean / variance) * (rows - mean), np.float64)
