"""The contract of tuple shedders, and the baselines of fair shedding (DISSP, sections 5.2-5.4).

Only the query, the SIC and the number of tuples of a batch are decoded before its fate is known (late deserialisation).
Called once `overload` says how much may stay, by the evaluation of DISSP.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats, Ints
from penstock.shedding.group_sums import running_sum, total

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class InputBuffer:
    """The headers of the waiting batches, in order of arrival; a batch for two queries appears once for each.

    ``query``: row of the queries. ``sic``: sum over the batch's tuples, >= 0. ``rows``: its tuples, >= 0.
    """

    query: Ints
    sic: Floats
    rows: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The standing of the queries if nothing in the input buffer is kept.

    ``proj``: SIC that is in the source time window until the next check. ``norm``: the SIC obtainable in it, > 0 for
    a query with batches: that which arrived here, or was generated. ``cost``: of a row, in units of C_T, > 0.
    """

    proj: Floats
    norm: Floats
    cost: Floats


class Shedder(Protocol):
    """Chooses the rows that stay; frozen, its fields are its parameters."""

    def load_shed(self, buffer: InputBuffer, n_to_keep: int, standing: Standing, random: np.random.Generator) -> Rows:
        """Return the number of rows kept of each batch: all, none, or a prefix, with SIC in proportion."""


def kept_sic(buffer: InputBuffer, rows_kept: Rows) -> Floats:
    """Return the SIC kept of each batch, in proportion to its rows. A marker without rows is never dropped."""
    return buffer.sic * np.divide(rows_kept, buffer.rows, out=np.ones(len(rows_kept)), where=buffer.rows > 0)


@dataclass(frozen=True, slots=True)
class RandomShedder:
    """Keeps random batches, the last one in part."""

    def load_shed(self, buffer: InputBuffer, n_to_keep: int, standing: Standing, random: np.random.Generator) -> Rows:
        """Return how many rows of each batch stay."""
        return keep_first(random.permutation(len(buffer.rows)), buffer.rows, n_to_keep)


@dataclass(frozen=True, slots=True)
class FifoShedder:
    """Keeps the first arrivals and drops the tail."""

    def load_shed(self, buffer: InputBuffer, n_to_keep: int, standing: Standing, random: np.random.Generator) -> Rows:
        """Return how many rows of each batch stay."""
        return keep_first(np.arange(len(buffer.rows)), buffer.rows, n_to_keep)


@dataclass(frozen=True, slots=True)
class EqualShareShedder:
    """Gives every query the same processing time, with unused time shared by the others; first in, first kept.

    The baseline of section 5.1 of the paper: it favours cheap queries.
    """

    def load_shed(self, buffer: InputBuffer, n_to_keep: int, standing: Standing, random: np.random.Generator) -> Rows:
        """Return how many rows of each batch stay."""
        cost = standing.cost[buffer.query]
        work = buffer.rows * cost
        demand = total(work, buffer.query, len(standing.cost))
        share = max_min_share(demand[demand > 0], float(n_to_keep))
        by_query = np.argsort(buffer.query, kind="stable")
        served = running_sum(work[by_query], buffer.query[by_query])
        rows_kept = np.empty_like(buffer.rows)
        rows_kept[by_query] = whole_rows((share - served) / cost[by_query], buffer.rows[by_query])
        return rows_kept


def keep_first(order: NDArray[np.intp], rows: Rows, n_to_keep: int) -> Rows:
    """Return the number of rows kept of each batch if they are admitted in this order, the last one in part."""
    in_order = rows[order]
    rows_kept = np.empty_like(rows)
    rows_kept[order] = np.clip(n_to_keep - (np.cumsum(in_order) - in_order), 0, in_order)
    return rows_kept


def whole_rows(room: Floats, rows: Rows) -> Rows:
    """Return how many of the rows fit into the room, in rows, which may be negative or fractional."""
    # A millionth of a row: what divides evenly must not lose a row to rounding.
    return np.clip(room + 1e-6, 0, rows).astype(np.int64)


def max_min_share(demand: Floats, available: float) -> float:
    """Return the largest equal share x so that the sum of min(wanted, x) is no more than what is available."""
    if demand.sum() <= available:
        return float(demand.max(initial=0.0))
    rising = np.sort(demand)
    satisfied = np.cumsum(rising) - rising
    shares = (available - satisfied) / np.arange(len(rising), 0, -1)
    return float(shares[np.argmax(shares <= rising)])
