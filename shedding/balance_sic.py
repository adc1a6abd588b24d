"""BALANCE-SIC: nodes that shed for themselves, and are fair together (THEMIS, SIGMOD 2016).

A coordinator a query sums the SIC of its results and tells the nodes that host the query; nodes tell one another
nothing. `standing` is what `fair_shedder` starts from at each node (docs/design/papers/dissp.md 5).
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats
from penstock.shedding.shedders import Standing
from penstock.shedding.sic_ledger import SicLedger


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What coordinators say at the end of shedding interval ``number``, by query.

    ``q_sic``: SIC of results in the source time window that will still be in it ``ahead`` intervals later.
    ``generated``: SIC that the sources gave out in the window.
    """

    number: int
    ahead: int
    q_sic: Floats
    generated: Floats


def report(number: int, results: SicLedger, generated: SicLedger, ahead: int) -> Report:
    """Return what coordinators say; ``ahead``: intervals until the end of the one for which it is used."""
    return Report(number, ahead, results.still_valid(ahead), generated.total())


def local_standing(admitted: SicLedger, arrived: SicLedger, waiting: Floats, cost: Floats) -> Standing:
    """Return how queries stand at a node by itself (docs/design/papers/dissp.md 4).

    proj = admitted in the window that is still valid at the next check
    norm = arrived here in the same window
      waiting  SIC that arrived since the last check, by query: it counts in the norm, not in proj
    """
    return Standing(admitted.still_valid(), arrived.still_valid() + waiting, cost)


def global_standing(told: Report, number: int, admitted: SicLedger, in_flight: Floats, cost: Floats) -> Standing:
    """Return how queries stand across nodes, at the check that ends shedding interval ``number``.

    proj = qSIC at time s + admitted here after s - in flight and already counted
    norm = SIC generated in the window
      s          the end of the interval told of
      in_flight  SIC admitted after s of which qSIC knows already, or which passed this node twice, by query

    Without the second term a node favours the same query until its results are in, and then starves it.
    """
    known = admitted.last(number - told.number)
    return Standing(np.maximum(0.0, told.q_sic + known - in_flight), told.generated, cost)


def source_keep(n_sic: Floats, margin: float, least: float = 0.01) -> float:
    """Return the share of its rows that every source sends on, so that upstream wastes less.

    keep = min(1, max(least, (1 + margin) * mean of nSIC))
      nSIC    share of the generated SIC that has reached the results, by query; NaN if nothing was generated
      margin  how far sources go beyond what gets through on average, > 0: they find out that way whether more would
      least   what they send at least, > 0: of nothing sent nothing would ever get through

    One share for all: one by query would hold those down that stand worst. If nothing was generated all is sent.
    """
    known = n_sic[~np.isnan(n_sic)]
    return min(1.0, max(least, float(known.mean()) * (1.0 + margin))) if len(known) else 1.0
