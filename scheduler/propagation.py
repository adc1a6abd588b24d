"""Propagation of the sources' target rates to every task (DS2, section 3.1).

Rates are propagated exactly, never rounded to instances. Called by the scalers.
"""

import numpy as np

from penstock.model.columns import Floats, Ints


def levels(producer: Ints, consumer: Ints, tasks: int) -> list[np.ndarray]:
    """Return the edges in groups, so that all edges into a group's producers are in groups before it.

    Raises:
        ValueError: the edges form a cycle.
    """
    depth = np.zeros(tasks, np.int64)
    for _ in range(tasks + 1):
        deeper = depth.copy()
        np.maximum.at(deeper, consumer, depth[producer] + 1)
        if np.array_equal(deeper, depth):
            order = np.argsort(depth[producer], kind="stable")
            ends = np.flatnonzero(np.diff(depth[producer][order])) + 1
            return np.split(order, ends) if len(order) else []
        depth = deeper
    raise ValueError("rates cannot be carried along a cycle of edges")


def propagate(target: Floats, ratio: Floats, producer: Ints, consumer: Ints) -> Floats:
    """Return the rate that must enter every task (DS2, eqs 7 and 8, with outputs by edge).

    T_j = sum over edges (i, j) of O_ij,   O_ij = T_i * r_ij
      T_i    rows a second into task i; of a task without edges into it: ``target``, NaN if unknown
      r_ij   rows into the edge for a row into i, >= 0; NaN if unknown. By definition 0 * NaN = 0
    """
    entering = np.zeros(len(target))
    roots = np.bincount(consumer, minlength=len(target)) == 0
    entering[roots] = target[roots]
    for edges in levels(producer, consumer, len(target)):
        above = entering[producer[edges]]
        sent = np.where(above == 0, 0.0, above * ratio[edges])
        entering += np.bincount(consumer[edges], weights=sent, minlength=len(target))
    return entering
