"""The task graph of equations 1-5 and 14: the queries that a task reaches, and the order of tasks along the data.

Stream-Economics, section 3: a sink without a declared query counts as one whose rows may not be shed.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats, Ints
from penstock.model.task_levels import Indexes, ranges, task_levels


@dataclass(frozen=True, slots=True, eq=False)
class TaskGraph:
    """Tasks, their edges and Q(t), the queries downstream of a task, which are never none.

    Queries from `declared` on are those that were not declared: sinks that may not be shed. `pair_query` holds Q(t) of
    task after task, from `starts[t]` on. `level` is the longest path from a task above which there is none;
    `edges_by_level` holds the edges into the tasks of level 1, 2, ...
    """

    producer: Ints
    consumer: Ints
    query_task: Indexes
    declared: int
    pair_task: Indexes
    pair_query: Indexes
    starts: Indexes
    level: Indexes
    edges_by_level: tuple[Indexes, ...]

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self.level)

    def over_queries(self, figures: Floats) -> Floats:
        """Return by task the largest of these figures by query over Q(t)."""
        return np.maximum.reduceat(figures[self.pair_query], self.starts) if self.tasks else np.zeros(0)


def task_graph(tasks: int, producer: Ints, consumer: Ints, query_task: Ints) -> TaskGraph:
    """Return the graph of this many tasks; `query_task` is the task of each declared query's sink.

    Raises:
        ValueError: the edges form a cycle.
    """
    level, edges_by_level = task_levels(tasks, producer, consumer)
    is_end = np.ones(tasks, np.bool_)
    is_end[producer] = False
    is_end[query_task] = False
    queries = np.concatenate([query_task, np.flatnonzero(is_end)]).astype(np.intp)
    pair_task, pair_query = _reach(level, producer, consumer, queries)
    starts = np.searchsorted(pair_task, np.arange(tasks))
    return TaskGraph(producer, consumer, queries, len(query_task), pair_task, pair_query, starts, level, edges_by_level)


def _reach(level: Indexes, producer: Ints, consumer: Ints, query_task: Indexes) -> tuple[Indexes, Indexes]:
    """Return the pairs (t, q) of Q(t), by task."""
    queries = max(1, len(query_task))
    order = np.argsort(consumer, kind="stable")
    firsts = np.searchsorted(consumer[order], np.arange(len(level) + 1))
    producers = producer[order].astype(np.intp)
    pairs_by_level, waiting = [], query_task * queries + np.arange(len(query_task))
    # From the end: all edges out of a level's tasks lead to pairs that are known by then.
    for at in range(int(level.max(initial=0)), -1, -1):
        is_here = level[waiting // queries] == at
        present = np.sort(waiting[is_here])
        is_new = np.ones(len(present), np.bool_)
        np.not_equal(present[1:], present[:-1], out=is_new[1:])
        present = present[is_new]
        pairs_by_level.append(present)
        task, query = np.divmod(present, queries)
        begin, end = firsts[task], firsts[task + 1]
        into = producers[ranges(begin, end)] * queries + np.repeat(query, end - begin)
        waiting = np.concatenate([waiting[~is_here], into])
    pair_task, pair_query = np.divmod(np.sort(np.concatenate(pairs_by_level)), queries)
    return pair_task, pair_query
