"""Propagation of the sources' target rates to every task (DS2, section 3.1).

Rates are propagated exactly, never rounded to instances. Called by the scalers.
"""

from collections.abc import Sequence

import numpy as np

from penstock.model.columns import Floats, Ints
from penstock.model.task_levels import Indexes, task_levels


def propagate(
    target: Floats, ratio: Floats, producer: Ints, consumer: Ints, by_level: Sequence[Indexes] | None = None
) -> Floats:
    """Return the rate that must enter every task (DS2, eqs 7 and 8, with outputs by edge).

    T_j = sum over edges (i, j) of O_ij,   O_ij = T_i * r_ij
      T_i    rows a second into task i; of a task without edges into it: ``target``, NaN if unknown
      r_ij   rows into the edge for a row into i, >= 0; NaN if unknown. By definition 0 * NaN = 0
    ``by_level``: the edges by the level that they enter, if `task_levels` was asked for them before.

    Raises:
        ValueError: the edges form a cycle.
    """
    entering = np.zeros(len(target))
    roots = np.bincount(consumer, minlength=len(target)) == 0
    entering[roots] = target[roots]
    for edges in task_levels(len(target), producer, consumer)[1] if by_level is None else by_level:
        above = entering[producer[edges]]
        sent = np.where(above == 0, 0.0, above * ratio[edges])
        entering += np.bincount(consumer[edges], weights=sent, minlength=len(target))
    return entering
