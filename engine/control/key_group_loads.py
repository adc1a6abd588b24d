"""The loads of key groups, by which they are dealt out to instances that come. Pure.

Called by `size_orders` and `application_orders`.
"""

from collections.abc import Collection, Mapping

import numpy as np

from penstock.engine.plan.planner import lies_by_key
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.snapshot import ClusterSnapshot


def loads_of(operators: Collection[str], graph: ExecutionGraph, snapshot: ClusterSnapshot) -> Mapping[str, list[float]]:
    """Return those of the key groups of operators, by their names: rows of the window, where all were measured."""
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
        rows = buckets.records_in[order]
        if np.isfinite(rows).all() and rows.sum() > 0:
            found |= dict.fromkeys(names, rows.tolist())
    return found
