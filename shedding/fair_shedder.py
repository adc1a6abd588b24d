"""Fair shedding: repeatedly admit the most valuable batch of the query that stands worst (DISSP, Algorithm 1).

The two levels of heaps in the listing are sorts here: a batch is admitted when its query stands lowest, and that
standing follows from its earlier batches. Called through `shedders.Shedder`.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats, Ints
from penstock.shedding.group_sums import running_sum, total
from penstock.shedding.shedders import InputBuffer, Rows, Standing, whole_rows

PIECES = 20
"""Batches are cut to N_tuples / 20 at most: coarse ones spoil fairness (docs/design/papers/dissp.md 4)."""
MOST_PIECES = 10_000
"""Pieces that cutting adds, however small N_tuples is beside what waits: a decision must stay short."""


class PartialBatchMode(Enum):
    """The treatment of the batch that no longer fits whole."""

    LITERAL = "literal"
    """It is admitted: one batch too many at most."""
    STRICT = "strict"
    """It is dropped, and smaller ones that still fit are admitted."""
    SLICE = "slice"
    """It is cut to fit, as all large batches are cut into pieces before."""


@dataclass(frozen=True, slots=True)
class FairShedder:
    """Equalises normalised SIC across queries; ties between queries are broken at random.

    ``by_cost``: the room is processing time instead of rows, and within a query the batch with the most SIC per time
    comes first, so that equal fairness costs less. Otherwise as in the paper.
    """

    mode: PartialBatchMode = PartialBatchMode.SLICE
    by_cost: bool = False

    def load_shed(self, buffer: InputBuffer, n_to_keep: int, standing: Standing, random: np.random.Generator) -> Rows:
        """Return the number of rows kept of each batch."""
        rows_kept = np.zeros(len(buffer.rows), np.int64)
        if not len(rows_kept) or n_to_keep <= 0:
            return rows_kept
        standing = _with_new_queries(buffer, standing)
        offers = self._offers(buffer, n_to_keep, standing)
        standing = _with_markers(buffer, standing)
        # A rank for the whole decision, not a draw for each comparison: the order stays total.
        tie = random.permutation(len(standing.proj))
        if self.mode is PartialBatchMode.STRICT:
            admitted = _strict(offers, n_to_keep, standing, tie)
        else:
            order = admission_order(offers, standing, tie)
            work = offers.work[order]
            room = n_to_keep - (np.cumsum(work) - work)
            admitted = np.empty(len(order), np.int64)
            if self.mode is PartialBatchMode.LITERAL:
                admitted[order] = np.where(room > 0, offers.rows[order], 0)
            else:
                admitted[order] = whole_rows(room * offers.rows[order] / work, offers.rows[order])
        np.add.at(rows_kept, offers.batch, admitted)
        return rows_kept

    def _offers(self, buffer: InputBuffer, n_to_keep: int, standing: Standing) -> "AdmissionOffers":
        batch = np.flatnonzero(buffer.rows)
        rows, sic = buffer.rows[batch], buffer.sic[batch]
        if self.mode is PartialBatchMode.SLICE and len(rows):
            most = max(1, n_to_keep // PIECES, int(rows.sum()) // MOST_PIECES)
            if rows.max() > most:
                of, piece = cut(rows, most)
                batch, sic, rows = batch[of], sic[of] * (piece / rows[of]), piece
        query = buffer.query[batch]
        work = rows * standing.cost[query] if self.by_cost else rows.astype(np.float64)
        return AdmissionOffers(batch, query, rows, sic, work, sic / work if self.by_cost else sic)


@dataclass(frozen=True, slots=True, eq=False)
class AdmissionOffers:
    """Candidates for admission: batches or pieces of ``batch``, with rows. ``work`` is the room of one, > 0.

    Within a query the largest ``value`` comes first; ties go to the earlier arrival.
    """

    batch: NDArray[np.intp]
    query: Ints
    rows: Rows
    sic: Floats
    work: Floats
    value: Floats

    def select(self, which: NDArray[np.intp]) -> "AdmissionOffers":
        """Return the offers at these places."""
        return AdmissionOffers(
            self.batch[which],
            self.query[which],
            self.rows[which],
            self.sic[which],
            self.work[which],
            self.value[which],
        )


def admission_order(offers: AdmissionOffers, standing: Standing, tie: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the order in which Algorithm 1 admits all offers (DISSP, lines 10-15).

    key(b) = (proj(q) + sum of sic of the batches of q before b) / norm(q)

    The key is the standing of q when b is at its head. Within a query keys never fall, so the merge by a heap of
    queries equals a stable sort by key; ``tie`` orders queries with equal keys.
    """
    grouped = np.lexsort((-offers.value, tie[offers.query]))
    query = offers.query[grouped]
    key = (standing.proj[query] + running_sum(offers.sic[grouped], query)) / standing.norm[query]
    return grouped[np.argsort(key, kind="stable")]


def cut(rows: Rows, most: int) -> tuple[NDArray[np.intp], Rows]:
    """Return pieces of at most ``most`` rows, equal within a row: the batch of each, and its rows."""
    pieces = -(-rows // most)
    of = np.repeat(np.arange(len(rows)), pieces)
    nth = np.arange(len(of)) - (np.cumsum(pieces) - pieces)[of]
    return of, rows[of] // pieces[of] + (nth < (rows % pieces)[of])


def _strict(offers: AdmissionOffers, n_to_keep: int, standing: Standing, tie: NDArray[np.intp]) -> Rows:
    """Return the rows admitted of each offer if none may exceed the room; offers that do not fit are passed over.

    Passing over an offer that is larger than the room changes nothing else. So all of those go at once, and the
    remaining ones are admitted in order up to the next one that does not fit.
    """
    admitted = np.zeros(len(offers.rows), np.int64)
    proj, room = standing.proj.copy(), float(n_to_keep)
    candidates = np.flatnonzero(offers.work <= room)
    while len(candidates):
        order = candidates[
            admission_order(offers.select(candidates), Standing(proj, standing.norm, standing.cost), tie)
        ]
        used = np.cumsum(offers.work[order])
        fit = int(np.searchsorted(used, room, side="right"))
        admitted_now = order[:fit]
        admitted[admitted_now] = offers.rows[admitted_now]
        proj += total(offers.sic[admitted_now], offers.query[admitted_now], len(proj))
        room -= used[fit - 1]
        candidates = order[fit:][offers.work[order[fit:]] <= room]
    return admitted


def _with_new_queries(buffer: InputBuffer, standing: Standing) -> Standing:
    """Return the standing including new queries, which start at SIC 0 so that they are served.

    The waiting SIC of a new query is all that is known of it, and serves as its norm.
    """
    known_queries = len(standing.proj)
    count = max(known_queries, int(buffer.query.max()) + 1)
    proj, norm, cost = np.zeros(count), np.zeros(count), np.ones(count)
    proj[:known_queries], norm[:known_queries], cost[:known_queries] = standing.proj, standing.norm, standing.cost
    is_new = ~((norm > 0) & np.isfinite(norm) & np.isfinite(proj))
    if not is_new[buffer.query].any():
        return standing
    waiting_sic = total(buffer.sic, buffer.query, count)
    has_cost = np.isfinite(cost) & (cost > 0) & ~is_new
    cost = np.where(has_cost, cost, cost[has_cost].mean() if has_cost.any() else 1.0)
    return Standing(
        np.where(is_new, 0.0, proj), np.where(is_new, np.where(waiting_sic > 0, waiting_sic, 1.0), norm), cost
    )


def _with_markers(buffer: InputBuffer, standing: Standing) -> Standing:
    """Return the standing including the SIC of markers, which have no rows and are always kept."""
    markers = buffer.rows == 0
    if not markers.any():
        return standing
    sic = total(buffer.sic[markers], buffer.query[markers], len(standing.proj))
    return Standing(standing.proj + sic, standing.norm, standing.cost)
