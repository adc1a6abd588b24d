"""The order of tasks along the data: their levels, and their edges level by level.

Used wherever a figure is carried from sources to sinks, or back: by `scheduler.propagation` and `shedding.task_graph`.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Ints

Indexes = NDArray[np.intp]


def task_levels(tasks: int, producer: Ints, consumer: Ints) -> tuple[Indexes, tuple[Indexes, ...]]:
    """Return the level of every task, the length of the longest way to it, and the edges by the level that they enter.

    Raises:
        ValueError: the edges form a cycle.
    """
    level = np.zeros(tasks, np.intp)
    missing = np.bincount(consumer, minlength=tasks)
    order = np.argsort(producer, kind="stable")
    firsts = np.searchsorted(producer[order], np.arange(tasks + 1))
    ready, at, done = np.flatnonzero(missing == 0), 0, 0
    while len(ready):
        level[ready] = at
        done += len(ready)
        below = consumer[order[ranges(firsts[ready], firsts[ready + 1])]]
        missing -= np.bincount(below, minlength=tasks)
        below = np.unique(below)
        ready, at = below[missing[below] == 0], at + 1
    if done < tasks:
        raise ValueError(f"{tasks - done} of {tasks} tasks lie on or below a cycle of edges")
    into = level[consumer]
    by_level = np.argsort(into, kind="stable")
    bounds = np.searchsorted(into[by_level], np.arange(1, at + 1))
    return level, tuple(by_level[a:b] for a, b in pairwise(bounds))


def ranges(firsts: Indexes, ends: Indexes) -> Indexes:
    """Return first, first + 1, ... below end, for one pair after the other."""
    counts = ends - firsts
    total = int(counts.sum())
    jumps = np.repeat(firsts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) if total else np.zeros(0, np.intp)
    return jumps + np.arange(total)
