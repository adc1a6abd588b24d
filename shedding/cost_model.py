"""The average cost of a tuple, and the number that a node can process until the next check (DISSP, section 5.3).

`PaperCost` is literal; `UsefulCost` divides useful time instead of elapsed time, so that an idle node does not seem
slow (docs/design/papers/dissp.md 3). Called at every shedding interval, beside `overload`.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np

from penstock.model.columns import Floats
from penstock.shedding.group_sums import Counts

DELTA_MS = 250.0
"""delta, the shedding interval (DISSP, section 5.2)."""
SMOOTHED = 40
"""Values in a moving average (DISSP, section 5.4)."""


@dataclass(frozen=True, slots=True)
class IntervalHistory:
    """Measurements of the last intervals between checks of one node, oldest first, at most `SMOOTHED` of them.

    ``elapsed_ms``: t, as measured. ``busy_ms``: useful time of its whole fragment, all threads. ``rows``: n, rows taken
    from the input buffer, each counted once and not once per operator.
    """

    elapsed_ms: tuple[float, ...] = ()
    busy_ms: tuple[float, ...] = ()
    rows: tuple[int, ...] = ()

    def after(self, elapsed_ms: float, busy_ms: float, rows: int, length: int = SMOOTHED) -> "IntervalHistory":
        """Return the history with one more interval, without the oldest if there are too many."""
        return IntervalHistory(
            (*self.elapsed_ms, elapsed_ms)[-length:], (*self.busy_ms, busy_ms)[-length:], (*self.rows, rows)[-length:]
        )


class CostModel(Protocol):
    """Predicts capacity; frozen, its fields are its parameters."""

    def tuple_cost_ms(self, history: IntervalHistory) -> float | None:
        """Return C_T, ms; None: nothing was processed, so it is not measured."""

    def n_tuples(self, history: IntervalHistory) -> float | None:
        """Return N_tuples until the next check; None: not measured."""


def average_cost_ms(t_ms: float, n: float) -> float:
    """Return the average processing cost of a tuple (DISSP, eq 5.2).

    C_T = t / n
      t  time, ms   n  tuples processed in it, > 0
    """
    return t_ms / n


def tuples_in_interval(delta_ms: float, c_t_ms: float, threads: int = 1) -> float:
    """Return how many tuples can be processed until the next check (DISSP, eq 5.3, for T threads).

    N_tuples = T * delta / C_T
      T  worker threads, 1 in the paper   delta  interval between checks, ms   C_T  cost of a tuple, ms, > 0
    """
    return threads * delta_ms / c_t_ms


@dataclass(frozen=True, slots=True)
class PaperCost:
    """Equations 5.2 and 5.3 as printed: elapsed time, and a moving average of each of the two figures.

    On an idle node n is just the arrivals, so C_T says nothing about capacity, and any burst looks like overload.
    """

    delta_ms: float = DELTA_MS

    def tuple_cost_ms(self, history: IntervalHistory) -> float | None:
        """Return the mean of t / n over the history."""
        costs = self._costs(history)
        return sum(costs) / len(costs) if costs else None

    def n_tuples(self, history: IntervalHistory) -> float | None:
        """Return the mean over the history of delta / C_T, where each C_T is itself smoothed."""
        costs = self._costs(history)
        if not costs:
            return None
        smoothed = (so_far / (number + 1) for number, so_far in enumerate(accumulate(costs)))
        return sum(tuples_in_interval(self.delta_ms, cost) for cost in smoothed) / len(costs)

    @staticmethod
    def _costs(history: IntervalHistory) -> list[float]:
        return [average_cost_ms(t, n) for t, n in zip(history.elapsed_ms, history.rows, strict=True) if n > 0]


@dataclass(frozen=True, slots=True)
class UsefulCost:
    """Useful time for elapsed time, smoothed once as a ratio of sums; the same as the paper's while saturated."""

    delta_ms: float = DELTA_MS
    threads: int = 1

    def tuple_cost_ms(self, history: IntervalHistory) -> float | None:
        """Return C_T = sum of busy / sum of n over the history."""
        busy_ms, rows = sum(history.busy_ms), sum(history.rows)
        return average_cost_ms(busy_ms, rows) if rows > 0 and busy_ms > 0 else None

    def n_tuples(self, history: IntervalHistory) -> float | None:
        """Return T * delta / C_T."""
        cost_ms = self.tuple_cost_ms(history)
        return None if cost_ms is None else tuples_in_interval(self.delta_ms, cost_ms, self.threads)


@dataclass(frozen=True, slots=True, eq=False)
class QueryCosts:
    """The cost of a row by query: an exponential average that restarts when a query's cost jumps.

    ``mean_ms`` NaN: not measured. ``above`` and ``below`` are the two one-sided sums of CUSUM, in parts of the mean.
    """

    mean_ms: Floats
    above: Floats
    below: Floats

    @classmethod
    def unknown(cls, queries: int) -> "QueryCosts":
        """Return the costs before any measurement."""
        return cls(np.full(queries, np.nan), np.zeros(queries), np.zeros(queries))

    def after(
        self, busy_ms: Floats, rows: Counts, *, gain: float = 0.1, slack: float = 0.1, jump: float = 1.0
    ) -> "QueryCosts":
        """Return the costs after an interval with these busy times and rows; a query without rows is unchanged.

        m' = m + gain * (x - m),   g+ = max(0, g+ + e - slack),   g- = max(0, g- - e - slack),   e = (x - m) / m
        m' = x and g+ = g- = 0 once g+ or g- exceeds ``jump``
          x  busy_ms / rows in this interval   m  average so far   g+, g-  evidence of a jump up, down
        """
        is_measured = (rows > 0) & (busy_ms > 0)
        x = np.full(len(rows), np.nan)
        np.divide(busy_ms, rows, out=x, where=is_measured)
        error = (x - self.mean_ms) / self.mean_ms
        above = np.maximum(0.0, self.above + error - slack)
        below = np.maximum(0.0, self.below - error - slack)
        anew = is_measured & (np.isnan(self.mean_ms) | (above > jump) | (below > jump))
        mean_ms = np.where(anew, x, self.mean_ms + gain * (x - self.mean_ms))
        return QueryCosts(
            np.where(is_measured, mean_ms, self.mean_ms),
            np.where(anew, 0.0, np.where(is_measured, above, self.above)),
            np.where(anew, 0.0, np.where(is_measured, below, self.below)),
        )

    def relative_to(self, c_t_ms: float) -> Floats:
        """Return c_q / C_T by query; an unmeasured query has the paper's average cost, C_T."""
        return np.where(np.isnan(self.mean_ms), 1.0, self.mean_ms / c_t_ms)
