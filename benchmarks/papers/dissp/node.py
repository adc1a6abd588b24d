"""A node of the DISSP simulation: an input buffer, an overload detector, a shedder, and threads that process."""

import numpy as np

from penstock.benchmarks.papers.dissp.workload import ARRIVAL, FRAGMENT, QUERY, ROWS, SIC, Batches, Workload
from penstock.model.columns import Floats
from penstock.shedding import overload
from penstock.shedding.cost_model import CostModel, IntervalHistory, QueryCosts
from penstock.shedding.group_sums import total
from penstock.shedding.overload import BufferHistory, BufferSize, Detector, Overload
from penstock.shedding.shedders import InputBuffer, Shedder, Standing, kept_sic
from penstock.shedding.sic_ledger import SicLedger


class Node:
    """State of a node between two checks; counts are those of the measured intervals."""

    def __init__(
        self,
        number: int,
        work: Workload,
        model: CostModel,
        detector: Detector,
        shedder: Shedder,
        random: np.random.Generator,
        *,
        by_cost: bool,
    ) -> None:
        self.by_cost = by_cost
        self.number, self.work, self.case = number, work, work.case
        self.model, self.detector, self.shedder, self.random = model, detector, shedder, random
        empty = SicLedger.empty(self.case.window_intervals, self.case.queries)
        self.admitted = self.arrived = empty
        self.fresh: Floats = np.zeros(self.case.queries)
        self.fresh_rows = 0.0
        self.costs = QueryCosts.unknown(self.case.queries)
        self.waiting: Batches = np.empty((0, 6))
        self.coming: Batches = np.empty((0, 6))
        self.free_at_ms = 0.0
        self.history = IntervalHistory()
        self.sizes = BufferHistory()
        self.rows = self.dropped = self.busy_ms = self.backlog = self.capacity_ms = 0.0

    def receive(self, number: int, keep: float) -> None:
        """Take in what was handed on, and what sources send until this interval ends, of which they keep a share."""
        sent = self.work.sent[self.number][number]
        if keep < 1:
            sent = sent.copy()
            kept = np.maximum(1, np.rint(sent[:, ROWS] * keep))
            sent[:, SIC] *= kept / sent[:, ROWS]
            sent[:, ROWS] = kept
        self.coming = np.concatenate((self.coming, sent))
        start_ms = number * self.case.interval_ms
        here = self.coming[:, ARRIVAL] <= start_ms
        arrived, self.coming = self.coming[here], self.coming[~here]
        self.waiting = _in_order(np.concatenate((self.waiting, arrived)))
        self.fresh = self._by_query(arrived)
        self.fresh_rows = float(arrived[:, ROWS].sum())

    def relative_costs(self) -> Floats:
        """Return what a row costs by query, in units of C_T; 1 while nobody asks."""
        cost_ms = self.model.tuple_cost_ms(self.history) if self.by_cost else None
        return np.ones(self.case.queries) if cost_ms is None else self.costs.relative_to(cost_ms)

    def process(self, number: int, standing: Standing) -> Batches:
        """Check, shed, and return what was processed in the interval, with the time when it was for that of arrival."""
        case = self.case
        start_ms, end_ms = number * case.interval_ms, (number + 1) * case.interval_ms
        is_measured = case.warm_up_intervals <= number < case.warm_up_intervals + case.measured_intervals
        self._check(standing, is_measured)
        soon = self.coming[:, ARRIVAL] < end_ms
        queue = np.concatenate((self.waiting, _in_order(self.coming[soon])))
        query, fragment = queue[:, QUERY].astype(np.int64), queue[:, FRAGMENT].astype(np.int64)
        noise = np.maximum(0.1, self.random.normal(1.0, case.cost_noise, len(queue)))
        busy_ms = queue[:, ROWS] * self.work.row_ms[query, fragment] * noise
        # Lindley's recursion without a loop: what comes first is done first, threads share the work.
        taken_ms = busy_ms / case.threads
        before_ms = np.cumsum(taken_ms) - taken_ms
        ready_ms = np.maximum(queue[:, ARRIVAL], max(start_ms, self.free_at_ms))
        starts_ms = np.maximum.accumulate(ready_ms - before_ms) + before_ms
        count = int(np.searchsorted(starts_ms, end_ms))
        processed = queue[:count].copy()
        processed[:, ARRIVAL] = starts_ms[:count] + taken_ms[:count]
        if count:
            self.free_at_ms = float(processed[-1, ARRIVAL])
        late = np.arange(count, len(queue))
        has_come = late < len(self.waiting)
        self.coming = np.concatenate((self.coming[~soon], queue[late[~has_come]]))
        taken_now = queue[len(self.waiting) : max(count, len(self.waiting))]
        self.arrived = self.arrived.after(self.fresh + self._by_query(taken_now))
        self.waiting = queue[late[has_come]]
        self._account(processed, query[:count], busy_ms[:count], is_measured)
        return processed

    def used(self) -> float:
        """Return the share of its capacity that was used."""
        return self.busy_ms / self.capacity_ms

    def _check(self, standing: Standing, is_measured: bool) -> None:
        rows = int(self.waiting[:, ROWS].sum())
        n_tuples = self.model.n_tuples(self.history)
        waiting = BufferSize(rows)
        decision = self.detector.detect(waiting, n_tuples, self.sizes)
        if is_measured and n_tuples is not None:
            self.backlog = max(self.backlog, rows / (n_tuples + self.fresh_rows))
        self.sizes = overload.with_check(self.sizes, waiting, decision)
        if isinstance(decision, Overload):
            headers = InputBuffer(
                self.waiting[:, QUERY].astype(np.int32), self.waiting[:, SIC], self.waiting[:, ROWS].astype(np.int64)
            )
            kept = self.shedder.load_shed(headers, decision.n_to_keep, standing, self.random)
            self.waiting[:, SIC] = kept_sic(headers, kept)
            self.waiting[:, ROWS] = kept
            self.waiting = self.waiting[(kept > 0) | (headers.rows == 0)]
            if is_measured:
                self.dropped += rows - kept.sum()

    def _account(self, processed: Batches, query: np.ndarray, busy_ms: Floats, is_measured: bool) -> None:
        case = self.case
        self.admitted = self.admitted.after(self._by_query(processed))
        if self.by_cost:
            rows = total(processed[:, ROWS], query, case.queries)
            self.costs = self.costs.after(total(busy_ms, query, case.queries), rows.astype(np.int64))
        all_busy_ms, all_rows = float(busy_ms.sum()), int(processed[:, ROWS].sum())
        self.history = self.history.after(case.interval_ms, all_busy_ms, all_rows, case.smoothed_intervals)
        if is_measured:
            self.busy_ms += all_busy_ms
            self.capacity_ms += case.threads * case.interval_ms
            self.rows += all_rows

    def _by_query(self, batches: Batches) -> Floats:
        return total(batches[:, SIC], batches[:, QUERY].astype(np.int64), self.case.queries)


def _in_order(batches: Batches) -> Batches:
    return batches[np.argsort(batches[:, ARRIVAL], kind="stable")]
