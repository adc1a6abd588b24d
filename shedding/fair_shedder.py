"""Fair shedding: the query that stands worst has its most valuable batch back, again and again (DISSP, Algorithm 1).

The listing's two levels of heaps are sorts here: a batch is admitted when its query has sunk to the bottom, and where a
query then stands follows from its batches before. Called through `shedders.Shedder`.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats, Ints
from penstock.shedding.by_group import running_sum, total
from penstock.shedding.shedders import InputBuffer, Rows, Standing, whole_rows

PIECES = 20
"""Batches are cut to N_tuples / 20 at most: coarse ones spoil fairness (docs/design/papers/dissp.md 4)."""
MOST_PIECES = 10_000
"""Pieces that cutting adds, however small N_tuples is beside what waits: a decision must stay short."""


class Mode(Enum):
    """What happens to the batch that no longer fits whole."""

    LITERAL = "literal"
    """It is admitted: one batch too many at most."""
    STRICT = "strict"
    """It is dropped, and smaller ones that still fit are admitted."""
    SLICE = "slice"
    """It is cut to fit, as all large batches are cut into pieces before."""


@dataclass(frozen=True, slots=True)
class FairShedder:
    """Equalises normalised SIC across queries; ties between queries are broken at random.

    ``by_cost``: the room is processing time instead of rows, and within a query the batch with most SIC for its time
    comes first, so that equal fairness costs less. Otherwise as the paper has it.
    """

    mode: Mode = Mode.SLICE
    by_cost: bool = False

    def load_shed(self, buffer: InputBuffer, n_to_keep: int, standing: Standing, random: np.random.Generator) -> Rows:
        """Return how many rows of each batch stay."""
        kept = np.zeros(len(buffer.rows), np.int64)
        if not len(kept) or n_to_keep <= 0:
            return kept
        standing = _with_new_queries(buffer, standing)
        offers = self._offers(buffer, n_to_keep, standing)
        standing = _with_markers(buffer, standing)
        # A rank for the whole decision, not a draw for each comparison: the order stays total.
        tie = random.permutation(len(standing.proj))
        if self.mode is Mode.STRICT:
            admitted = _strict(offers, n_to_keep, standing, tie)
        else:
            order = admission_order(offers, standing, tie)
            work = offers.work[order]
            room = n_to_keep - (np.cumsum(work) - work)
            admitted = np.empty(len(order), np.int64)
            if self.mode is Mode.LITERAL:
                admitted[order] = np.where(room > 0, offers.rows[order], 0)
            else:
                admitted[order] = whole_rows(room * offers.rows[order] / work, offers.rows[order])
        np.add.at(kept, offers.batch, admitted)
        return kept

    def _offers(self, buffer: InputBuffer, n_to_keep: int, standing: Standing) -> "Offers":
        batch = np.flatnonzero(buffer.rows)
        rows, sic = buffer.rows[batch], buffer.sic[batch]
        if self.mode is Mode.SLICE and len(rows):
            most = max(1, n_to_keep // PIECES, int(rows.sum()) // MOST_PIECES)
            if rows.max() > most:
                of, piece = cut(rows, most)
                batch, sic, rows = batch[of], sic[of] * (piece / rows[of]), piece
        query = buffer.query[batch]
        work = rows * standing.cost[query] if self.by_cost else rows.astype(np.float64)
        return Offers(batch, query, rows, sic, work, sic / work if self.by_cost else sic)


@dataclass(frozen=True, slots=True, eq=False)
class Offers:
    """What may be admitted: batches or pieces of ``batch``, with rows. ``work`` is the room one takes, > 0.

    Within a query the largest ``value`` comes first, and of equal ones what came first.
    """

    batch: NDArray[np.intp]
    query: Ints
    rows: Rows
    sic: Floats
    work: Floats
    value: Floats

    def of(self, which: NDArray[np.intp]) -> "Offers":
        """Return some of them."""
        return Offers(
            self.batch[which],
            self.query[which],
            self.rows[which],
            self.sic[which],
            self.work[which],
            self.value[which],
        )


def admission_order(offers: Offers, standing: Standing, tie: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the order in which Algorithm 1 admits everything that is offered (DISSP, lines 10-15).

    key(b) = (proj(q) + sum of sic of the batches of q before b) / norm(q)

    The key is where q stands when b is at its head. Within a query keys never fall, so that the merge which a heap of
    queries makes is a stable sort by key; queries of equal keys come by ``tie``.
    """
    grouped = np.lexsort((-offers.value, tie[offers.query]))
    query = offers.query[grouped]
    key = (standing.proj[query] + running_sum(offers.sic[grouped], query)) / standing.norm[query]
    return grouped[np.argsort(key, kind="stable")]


def cut(rows: Rows, most: int) -> tuple[NDArray[np.intp], Rows]:
    """Return equal pieces, to a row, of no more than so many rows: which batch each is of, and its rows."""
    pieces = -(-rows // most)
    of = np.repeat(np.arange(len(rows)), pieces)
    nth = np.arange(len(of)) - (np.cumsum(pieces) - pieces)[of]
    return of, rows[of] // pieces[of] + (nth < (rows % pieces)[of])


def _strict(offers: Offers, n_to_keep: int, standing: Standing, tie: NDArray[np.intp]) -> Rows:
    """Return the rows admitted of each offer if none may exceed the room: what does not fit is passed over.

    What is larger than the room can only be passed over, and that changes nothing else. So all of it goes at once, and
    what is left is in order until the next one that does not fit.
    """
    admitted = np.zeros(len(offers.rows), np.int64)
    proj, room = standing.proj.copy(), float(n_to_keep)
    left = np.flatnonzero(offers.work <= room)
    while len(left):
        order = left[admission_order(offers.of(left), Standing(proj, standing.norm, standing.cost), tie)]
        taken = np.cumsum(offers.work[order])
        fit = int(np.searchsorted(taken, room, side="right"))
        now = order[:fit]
        admitted[now] = offers.rows[now]
        proj += total(offers.sic[now], offers.query[now], len(proj))
        room -= taken[fit - 1]
        left = order[fit:][offers.work[order[fit:]] <= room]
    return admitted


def _with_new_queries(buffer: InputBuffer, standing: Standing) -> Standing:
    """Return how the queries stand with those of which nobody has heard: they have SIC 0, so that they are served.

    What waits of one is all that is known of it, so that is what its SIC is normalised by.
    """
    known = len(standing.proj)
    count = max(known, int(buffer.query.max()) + 1)
    proj, norm, cost = np.zeros(count), np.zeros(count), np.ones(count)
    proj[:known], norm[:known], cost[:known] = standing.proj, standing.norm, standing.cost
    is_new = ~((norm > 0) & np.isfinite(norm) & np.isfinite(proj))
    if not is_new[buffer.query].any():
        return standing
    waits = total(buffer.sic, buffer.query, count)
    has_cost = np.isfinite(cost) & (cost > 0) & ~is_new
    cost = np.where(has_cost, cost, cost[has_cost].mean() if has_cost.any() else 1.0)
    return Standing(np.where(is_new, 0.0, proj), np.where(is_new, np.where(waits > 0, waits, 1.0), norm), cost)


def _with_markers(buffer: InputBuffer, standing: Standing) -> Standing:
    """Return how the queries stand with the SIC of markers, which have no rows and so always stay."""
    markers = buffer.rows == 0
    if not markers.any():
        return standing
    sic = total(buffer.sic[markers], buffer.query[markers], len(standing.proj))
    return Standing(standing.proj + sic, standing.norm, standing.cost)
