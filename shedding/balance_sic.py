"""BALANCE-SIC: nodes that shed independently, and are fair as a whole (THEMIS, SIGMOD 2016).

One coordinator per query sums the SIC of its results and reports it to the nodes that host the query; nodes do not
talk to one another. `fair_shedder` starts from the `Standing` computed here at each node
(docs/design/papers/dissp.md 5).
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats
from penstock.shedding.shedders import Standing
from penstock.shedding.sic_ledger import SicLedger


@dataclass(frozen=True, slots=True, eq=False)
class CoordinatorReport:
    """The coordinators' report at the end of shedding interval ``number``, by query.

    ``q_sic``: SIC of results in the source time window that will still be in it ``ahead`` intervals later.
    ``generated``: SIC that the sources generated in the window.
    """

    number: int
    ahead: int
    q_sic: Floats
    generated: Floats


def coordinator_report(number: int, results: SicLedger, generated: SicLedger, ahead: int) -> CoordinatorReport:
    """Return the coordinators' report; ``ahead``: intervals until the end of the one for which it is used."""
    return CoordinatorReport(number, ahead, results.still_valid(ahead), generated.total())


def local_standing(admitted: SicLedger, arrived: SicLedger, waiting: Floats, cost: Floats) -> Standing:
    """Return the standing of queries at a node by itself (docs/design/papers/dissp.md 4).

    proj = admitted in the window that is still valid at the next check
    norm = arrived here in the same window
      waiting  SIC that arrived since the last check, by query: it counts in the norm, not in proj
    """
    return Standing(admitted.still_valid(), arrived.still_valid() + waiting, cost)


def global_standing(
    report: CoordinatorReport, number: int, admitted: SicLedger, in_flight: Floats, cost: Floats
) -> Standing:
    """Return the standing of queries across nodes, at the check that ends shedding interval ``number``.

    proj = qSIC at time s + admitted here after s - in flight and already counted
    norm = SIC generated in the window
      s          the end of the reported interval
      in_flight  SIC admitted after s that qSIC already contains, or that passed this node twice, by query

    Without the second term a node favours the same query until its results are in, and then starves it.
    """
    admitted_since = admitted.last(number - report.number)
    return Standing(np.maximum(0.0, report.q_sic + admitted_since - in_flight), report.generated, cost)


def source_keep(n_sic: Floats, margin: float, least: float = 0.01) -> float:
    """Return the share of its rows that every source forwards, so that less work upstream is wasted.

    keep = min(1, max(least, (1 + margin) * mean of nSIC))
      nSIC    share of the generated SIC that has reached the results, by query; NaN if nothing was generated
      margin  how far sources go beyond what gets through on average, > 0: they find out that way whether more would
      least   what they send at least, > 0: of nothing sent nothing would ever get through

    One share for all, since one per query would hold down those that stand worst. 1 if nothing was generated.
    """
    measured = n_sic[~np.isnan(n_sic)]
    return min(1.0, max(least, float(measured.mean()) * (1.0 + margin))) if len(measured) else 1.0
