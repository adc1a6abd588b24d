"""The largest common accuracy of all queries, priority by priority: max-min fair filling of machines' CPU.

The `penstock` way of `qod` in place of Algorithm 3 of Stream-Economics: accuracy is raised evenly, where the paper
shares out CPU evenly. A query that is blocked by a full machine or thread stays, the others continue to rise.
"""

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.task_levels import Indexes, ranges
from penstock.shedding.group_sums import least, total
from penstock.shedding.qod_figures import Figures

_ROUNDING = 1e-9
_STEEPEST = 1e12
"""Percent of a core for an accuracy of 1; more than any machine has, and a product with it stays finite."""


def fill(figures: Figures, a_cpu: Floats, desired: Floats, taking: Indexes) -> tuple[Floats, Floats]:
    """Return desired(q) by query, and the CPU granted to each instance above its minimum, percent of a core.

    a_cpu: percent by machine, left after reserving the minimums; desired: upper bound of each query;
    taking: the instances that use it.
    """
    graph, spare = figures.graph, a_cpu.astype(np.float64)
    weight = np.zeros(len(figures.task))
    weight[taking] = _cpu_per_accuracy(figures)[taking]
    ceiling = np.maximum(figures.minimum, np.minimum(desired, _thread_ceiling(figures)))
    level = figures.minimum.copy()
    level_before = graph.over_queries(level)
    begin = level_before
    for p in np.unique(figures.priority)[::-1]:
        rising = (figures.priority == p) & (ceiling > level)
        if not rising.any():
            continue
        level = _Level(figures, weight, spare, level_before, np.where(rising, ceiling, level), rising).filled()
        level_after = graph.over_queries(level)
        used = weight * (level_after - level_before)[figures.task]
        spare -= total(used, figures.machine, len(spare))
        # What rounding leaves is nothing: a query that gets next to none of it would come and go.
        spare[spare < _ROUNDING] = 0.0
        level_before = level_after
    return level, weight * (level_before - begin)[figures.task]


def _cpu_per_accuracy(figures: Figures) -> Floats:
    """Return CPU by instance for an accuracy of 1 above the minimum: the slope of equation 8, percent of a core.

    Where cAc = 0 it assumes a whole core; a minimum above 0 has reserved that already.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = np.minimum(figures.cpu / figures.c_ac, _STEEPEST)
    return np.where(figures.c_ac > 0, slope, np.where(figures.min_ac > 0, 0.0, 100.0))


def _thread_ceiling(figures: Figures) -> Floats:
    """Return by query the accuracy at which the first of its instances fills a thread, above 1 if none does."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ceiling = np.where(figures.cpu > 0, 100.0 * figures.c_ac / figures.cpu, np.inf)
    ceiling[figures.c_ac == 0] = np.inf
    graph = figures.graph
    by_task = least(ceiling, figures.task, graph.tasks)
    return least(by_task[graph.pair_task], graph.pair_query, len(figures.minimum))


class _Level:
    """The queries of one priority, which rise together: x is their common accuracy.

    A task is raised to max(bottom, min(x, top)): bottom is the requirement of others or of a minimum, top the highest
    ceiling among its rising queries. A machine's load is then piecewise linear in x and never falls.
    """

    def __init__(
        self, figures: Figures, weight: Floats, spare: Floats, bottom: Floats, ceiling: Floats, rising: Bools
    ) -> None:
        graph = figures.graph
        self._left, self._ceiling, self._bottom, self._rising = spare, ceiling, bottom, rising
        pairs = np.flatnonzero(rising[graph.pair_query])
        self._pair_task, self._pair_query = graph.pair_task[pairs], graph.pair_query[pairs]
        self._tasks, self._pair_starts = np.unique(self._pair_task, return_index=True)
        self._top = bottom.copy()
        self._lower_tops()
        active = np.flatnonzero((weight > 0) & (self._top > bottom)[figures.task])
        self._task, self._machine = figures.task[active], figures.machine[active]
        self._weight = weight[active]

    def filled(self) -> Floats:
        """Return desired(q) by query: every ceiling, lowered to the machines' capacity."""
        while True:
            bottom, top = self._bottom[self._task], self._top[self._task]
            is_full = self._load(1.0, bottom, top) > self._left + _ROUNDING * (1.0 + self._left)
            is_stopped = is_full[self._machine] & (top > bottom)
            if not is_stopped.any():
                return self._ceiling
            self._task, self._machine, self._weight = (
                self._task[is_stopped],
                self._machine[is_stopped],
                self._weight[is_stopped],
            )
            bottom, top = bottom[is_stopped], top[is_stopped]
            x = np.where(is_full, self._level_when_full(bottom, top), np.inf)
            at, counts = self._pairs_of()
            full = self._first_to_fill(x, at, counts)
            stops = np.repeat(full[self._machine], counts)
            reached = np.minimum(np.maximum(x[self._machine], bottom), top)
            self._stop_at(np.repeat(reached, counts)[stops], at[stops])
            rest = ~full[self._machine]
            self._task, self._machine, self._weight = self._task[rest], self._machine[rest], self._weight[rest]

    def _load(self, x: Floats | float, bottom: Floats, top: Floats) -> Floats:
        """Return by machine the CPU above `bottom` where its tasks are at level x, which is by instance."""
        lifted = np.minimum(np.maximum(x, bottom), top) - bottom
        return total(self._weight * lifted, self._machine, len(self._left))

    def _level_when_full(self, bottom: Floats, top: Floats) -> Floats:
        """Return by machine the largest x that it can carry, by interpolation between two kinks of its load."""
        kinks = np.unique(np.concatenate([bottom, top]))
        low = np.zeros(len(self._left), np.intp)
        high = np.full(len(self._left), len(kinks) - 1)
        while (high - low).max() > 1:
            middle = (low + high) // 2
            fits = self._load(kinks[middle][self._machine], bottom, top) <= self._left
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        below = self._load(kinks[low][self._machine], bottom, top)
        above = self._load(kinks[high][self._machine], bottom, top)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            part = np.clip((self._left - below) / (above - below), 0.0, 1.0)
        return np.where(above > below, kinks[low] + part * (kinks[high] - kinks[low]), kinks[low])

    def _first_to_fill(self, x: Floats, at: Indexes, counts: Indexes) -> Bools:
        """Return the machines that fill no later than any other machine that shares a query with them.

        Other machines do not change their load until then, so all of them can be settled in one round.
        """
        machine, query = np.repeat(self._machine, counts), self._pair_query[at]
        fills = x[machine]
        first = least(fills, query, len(self._ceiling))
        waits = np.zeros(len(x), np.bool_)
        waits[machine[fills > first[query]]] = True
        return np.isfinite(x) & ~waits

    def _stop_at(self, reached: Floats, at: Indexes) -> None:
        """Cap the queries at these places at the level that their tasks on full machines have reached."""
        np.minimum.at(self._ceiling, self._pair_query[at], reached)
        self._lower_tops()

    def _pairs_of(self) -> tuple[Indexes, Indexes]:
        """Return the places of the rising queries of each instance's task, one instance after another, and counts."""
        at = np.searchsorted(self._tasks, self._task)
        ends = np.append(self._pair_starts[1:], len(self._pair_task))
        return ranges(self._pair_starts[at], ends[at]), ends[at] - self._pair_starts[at]

    def _lower_tops(self) -> None:
        highest = np.maximum.reduceat(self._ceiling[self._pair_query], self._pair_starts)
        self._top[self._tasks] = np.maximum(self._bottom[self._tasks], highest)
