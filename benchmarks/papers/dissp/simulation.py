"""Nodes that shed what waits for them, and coordinators that tell them what came out (docs/design/papers/dissp.md 4-6).

Everything that decides is the engine's own: detector, cost model, shedders, ledgers. Deterministic by seed; run by
`evaluation` and by tests.
"""

from dataclasses import dataclass

import numpy as np

from penstock.benchmarks.papers.dissp.node import Node
from penstock.benchmarks.papers.dissp.workload import ARRIVAL, FRAGMENT, QUERY, ROWS, SENT, SIC, Batches, Workload
from penstock.model.columns import Floats
from penstock.shedding.balance_sic import (
    CoordinatorReport,
    coordinator_report,
    global_standing,
    local_standing,
    source_keep,
)
from penstock.shedding.cost_model import CostModel, UsefulCost
from penstock.shedding.group_sums import total
from penstock.shedding.overload import Detector, MeanDetector
from penstock.shedding.shedders import Shedder, Standing
from penstock.shedding.sic_ledger import SicLedger


@dataclass(frozen=True, slots=True)
class SheddingPolicy:
    """The shedding policy of every node.

    ``coordinated``: the standing of queries comes from coordinators, else from the node's own view. ``by_cost``: nodes
    measure what each query costs, for shedders that ask. ``counts_since``: what was admitted since a report counts
    too; off only to show why it must. ``keep_margin``: sources send no more than what gets through and this much
    beyond; None: they send everything.
    """

    shedder: Shedder
    coordinated: bool = False
    by_cost: bool = False
    counts_since: bool = True
    keep_margin: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SheddingOutcome:
    """The fate of all that sources sent in the measured intervals.

    ``n_sic``: by query that was sent anything, in [0, 1]. ``dropped``: share of the rows at nodes that was dropped.
    ``used``: share of the capacity of overloaded nodes that was used; NaN if none is. ``backlog``: the largest input
    buffer at a check, in N_tuples + arrivals of the interval before it. ``admitted``: SIC processed, by (interval,
    query), at the nodes of first fragments.
    """

    n_sic: Floats
    dropped: float
    used: float
    backlog: float
    admitted: Floats


def simulate(
    work: Workload, policy: SheddingPolicy, seed: int, model: CostModel | None = None, detector: Detector | None = None
) -> SheddingOutcome:
    """Return what comes of a workload under a policy; equal arguments give equal outcomes."""
    case = work.case
    run = _Run(
        work,
        policy,
        np.random.default_rng(seed),
        model or UsefulCost(case.interval_ms, case.threads),
        detector or MeanDetector(),
    )
    for number in range(case.intervals):
        run.interval(number)
    return run.outcome()


class _Run:
    def __init__(
        self, work: Workload, policy: SheddingPolicy, random: np.random.Generator, model: CostModel, detector: Detector
    ) -> None:
        case = work.case
        self.work, self.case, self.policy = work, case, policy
        self.nodes = [
            Node(number, work, model, detector, policy.shedder, random, by_cost=policy.by_cost)
            for number in range(case.nodes)
        ]
        self.results = self.generated = SicLedger.empty(case.window_intervals, case.queries)
        # Results by the interval in which they reach their coordinator; nobody awaits what comes after the end.
        self.arriving = np.zeros((case.intervals + 1, case.queries))
        self.reached = np.zeros(case.queries)
        self.reports: list[CoordinatorReport] = []
        self.delay = int(np.ceil(case.link_ms / case.interval_ms)) + case.result_delay_intervals
        self.keep = 1.0
        self.admitted = np.zeros((case.intervals, case.queries))

    def interval(self, number: int) -> None:
        """Let a shedding interval pass: coordinators report, nodes check and process, results are handed on."""
        case = self.case
        if self.policy.coordinated and number % case.coordinator_intervals == 0:
            ahead = self.delay + (case.coordinator_intervals - 1) // 2 + 1
            self.reports.append(coordinator_report(number, self.results, self.generated, ahead))
        report = next((of for of in reversed(self.reports) if of.number <= number - self.delay), None)
        processed = []
        for node in self.nodes:
            node.receive(number, self.keep)
            processed.append(node.process(number, self._standing(node, report, number)))
        self._hand_on(number, np.concatenate(processed))
        self.results = self.results.after(self.arriving[number])
        self.generated = self.generated.after(self.work.generated[number])
        self._tell_sources(number)

    def outcome(self) -> SheddingOutcome:
        """Return what came of the measured intervals."""
        measured = slice(self.case.warm_up_intervals, self.case.warm_up_intervals + self.case.measured_intervals)
        generated = self.work.generated[measured].sum(axis=0)
        fed = generated > 0
        dropped = sum(node.dropped for node in self.nodes)
        overloaded = [node for node in self.nodes if self.work.overload[node.number] > 1 and node.rows > 0]
        return SheddingOutcome(
            n_sic=self.reached[fed] / generated[fed],
            dropped=float(dropped / (dropped + sum(node.rows for node in self.nodes))),
            used=float(np.mean([node.used() for node in overloaded])) if overloaded else float("nan"),
            backlog=max(node.backlog for node in self.nodes),
            admitted=self.admitted,
        )

    def _standing(self, node: Node, report: CoordinatorReport | None, number: int) -> Standing:
        cost = node.relative_costs()
        if report is None:
            return local_standing(node.admitted, node.arrived, node.fresh, cost)
        standing = global_standing(report, number, node.admitted, np.zeros(self.case.queries), cost)
        proj = standing.proj if self.policy.counts_since else report.q_sic
        norm = standing.norm
        if not norm.min() > 0:
            # What sources have begun to send since the report is not in it: their window is that of the node.
            norm = np.where(norm > 0, norm, np.maximum(node.arrived.total() + node.fresh, 1e-9))
        return Standing(proj, norm, cost)

    def _hand_on(self, number: int, processed: Batches) -> None:
        case, place = self.case, self.work.place
        query, fragment = processed[:, QUERY].astype(np.int64), processed[:, FRAGMENT].astype(np.int64)
        first = fragment == 0
        self.admitted[number] = total(processed[first, SIC], query[first], case.queries)
        node = np.append(place, np.full((case.queries, 1), -1), axis=1)[query, fragment + 1]
        processed[:, ARRIVAL] += case.link_ms
        processed[:, FRAGMENT] += 1
        processed[:, ROWS] = np.where(
            processed[:, ROWS] > 0, np.maximum(1, np.rint(processed[:, ROWS] * case.selectivity)), 0
        )
        for of in self.nodes:
            of.coming = np.concatenate((of.coming, processed[node == of.number]))
        results = processed[node < 0]
        query = results[:, QUERY].astype(np.int64)
        when = np.minimum(results[:, ARRIVAL] // case.interval_ms, case.intervals).astype(np.int64)
        np.add.at(self.arriving, (when, query), results[:, SIC])
        sent = results[:, SENT] // case.interval_ms
        counts = (sent >= case.warm_up_intervals) & (sent < case.warm_up_intervals + case.measured_intervals)
        self.reached += total(results[:, SIC] * counts, query, case.queries)

    def _tell_sources(self, number: int) -> None:
        period = self.case.window_intervals // 2
        if self.policy.keep_margin is None or (number + 1) % period:
            return
        # Half of the period is left out: it still shows what was kept before.
        generated = self.generated.last(period // 2)
        through = np.full(self.case.queries, np.nan)
        np.divide(self.results.last(period // 2), generated, out=through, where=generated > 0)
        self.keep = source_keep(through, self.policy.keep_margin)
