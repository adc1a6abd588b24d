"""Metrics as reporters give them: averaged over a window, late, a little off, sometimes missing.

As docs/design/simulated-cluster.md 6 has it. The loop asks for a `MetricReport` at every report's time; a policy sees
what an `Observer` makes of two of them.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.snapshots import ReportWindow, snapshot_of
from penstock.benchmarks.papers.cluster_model.tallies import tally
from penstock.benchmarks.papers.cluster_model.topology import Indices, Topology
from penstock.benchmarks.papers.cluster_model.totals import Totals
from penstock.model.columns import Bools, Floats
from penstock.model.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class MetricReport:
    """Counters up to ``time_s``, and gauges by slot, application, bucket and partition."""

    time_s: float
    totals: Totals
    top: Topology
    running: Bools
    age_s: Floats
    settled_s: Floats
    state_bytes: Floats
    bucket_bytes: Floats
    bucket_instance: Indices
    position: Floats
    reader: Indices
    managed: Floats
    level: Floats
    given: Floats
    used: Floats
    rates: Floats
    latency_ms: Floats
    emit_ms: Floats
    machine_resident: Floats


class Reporter:
    """Keeps the reports that are on their way, and the truth of how sinks' latencies were lately."""

    def __init__(self, cluster: Cluster) -> None:
        """Report for the first time: nothing."""
        self._cluster = cluster
        self._late_s = cluster.spec.reports.late_s
        self.newest = self._report(None)
        self._reports: deque[MetricReport] = deque([self.newest])

    def tick(self) -> MetricReport:
        """Report what is now; of those before keep what may be asked for."""
        self._cluster.log.report_lag()
        self._cluster.totals.lag_sum[:] = self._cluster.log.lag_sum
        self.newest = self._report(self.newest)
        self._reports.append(self.newest)
        while len(self._reports) > 1 and self._reports[1].time_s <= self._cluster.time_s - self._late_s + 1e-9:
            self._reports.popleft()
        return self.newest

    def visible(self) -> MetricReport:
        """Return the newest report that has arrived."""
        return self._reports[0]

    def _report(self, before: MetricReport | None) -> MetricReport:
        cluster = self._cluster
        totals = cluster.totals.copy()
        top = cluster.top
        state = np.full(cluster.graph.slots, np.nan)
        bucket_bytes = np.full(len(totals.bucket_records), np.nan)
        owner = np.zeros(len(totals.bucket_records), np.int64)
        for task, item in enumerate(cluster.spec.tasks):
            if not item.is_keyed:
                continue
            begin, owners = cluster.buckets[task], cluster.layout.owners[task]
            owner[begin : begin + item.key_groups] = owners
            held = cluster.states.get(task)
            if held is not None:
                bucket_bytes[begin : begin + item.key_groups] = held.bucket_bytes
                first, count = cluster.graph.task_slot[task], cluster.layout.parallelism(task)
                state[first : first + count] = tally(owners, held.bucket_bytes, count)
        latency_ms, emit_ms = latencies(cluster, before, totals)
        application_bytes = cluster.resident / np.maximum(
            1, np.bincount(top.application, minlength=len(cluster.resident))
        )
        return MetricReport(
            time_s=cluster.time_s,
            totals=totals,
            top=top,
            running=cluster.running(),
            age_s=cluster.time_s - cluster.started,
            settled_s=cluster.time_s - cluster.touched,
            state_bytes=state,
            bucket_bytes=bucket_bytes,
            bucket_instance=owner,
            position=cluster.log.position.copy(),
            reader=cluster.reader,
            managed=cluster.managed.copy(),
            level=cluster.level.astype(np.float64),
            given=np.stack((cluster.cores, cluster.memory, cluster.heap)),
            used=np.stack((cluster.live, cluster.committed, cluster.resident)),
            rates=cluster.log.rates(cluster.time_s),
            latency_ms=latency_ms,
            emit_ms=emit_ms,
            machine_resident=tally(
                np.maximum(top.machine, 0), application_bytes[top.application], len(cluster.spec.machines)
            ),
        )


class Observer:
    """An observer that decides at intervals: each time it sees what was counted since the last time."""

    def __init__(self, cluster: Cluster, reporter: Reporter) -> None:
        """Begin with the newest report."""
        self._cluster = cluster
        self._reporter = reporter
        self._before = reporter.visible()
        self._number = 0

    def look(self) -> ClusterSnapshot | None:
        """Return a snapshot; None if nothing new has arrived."""
        report, before = self._reporter.visible(), self._before
        if report.time_s <= before.time_s:
            return None
        self._before = report
        self._number += 1
        window = ReportWindow(
            self._number, report.time_s, report.time_s - before.time_s, report, report.totals.since(before.totals)
        )
        return snapshot_of(self._cluster, window)


def latencies(cluster: Cluster, before: MetricReport | None, totals: Totals) -> tuple[Floats, Floats]:
    """Return by slot the latency of a row since the last report, and from the source's output to here, in ms.

    latency = waiting rows / rows a second + (busy + remote + core wait) / rows;  Little's law for the first part
    """
    slots = cluster.graph.slots
    if before is None or cluster.time_s <= before.time_s:
        return np.full(slots, np.nan), np.full(slots, np.nan)
    lately = totals.since(before.totals)
    rows = np.maximum(lately.records_in, 1e-12)
    with np.errstate(invalid="ignore"):
        served = (lately.busy_s + lately.remote_s + lately.core_wait_s) / rows
        latency = np.where(lately.records_in > 0, 1e3 * (lately.queue_rows_s / rows + served), np.nan)
    top = cluster.top
    here = latency[top.slot]
    task_rows = tally(top.task, lately.records_in[top.slot], len(cluster.spec.tasks))
    sums = tally(top.task, np.nan_to_num(here) * lately.records_in[top.slot], len(cluster.spec.tasks))
    mean = np.where(task_rows > 0, sums / np.maximum(task_rows, 1e-12), np.nan)
    path = np.where(cluster.graph.is_source, 0.0, np.nan)
    seconds = cluster.time_s - before.time_s
    figures = cluster.figures
    fill_s = np.minimum(figures.linger_s, figures.batch_rows / np.maximum(task_rows / seconds, 1e-12))
    for edge in range(len(cluster.spec.edges)):
        above, below = cluster.graph.producer[edge], cluster.graph.consumer[edge]
        way = (
            path[above]
            + mean[above] * (not cluster.graph.is_source[above])
            + 1e3 * (cluster.edges.delay_s[edge] + fill_s[above])
        )
        path[below] = np.fmax(path[below], way)
    emit = np.full(slots, np.nan)
    own = np.where(cluster.graph.is_source[top.task], here, path[top.task] + here)
    emit[top.slot] = own
    return latency, emit
