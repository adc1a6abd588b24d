"""The truth of a run over time, exact and at once, for charts and verdicts; policies never see it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model.tallies import tally
from penstock.benchmarks.papers.cluster_model.totals import Totals
from penstock.model.columns import Floats

if TYPE_CHECKING:
    from penstock.benchmarks.papers.cluster_model.cluster import Cluster
    from penstock.benchmarks.papers.cluster_model.reports import MetricReport

Table = NDArray[np.float64]


@dataclass(slots=True)
class Series:
    """Figures with one row a report; `table` gives a series as an array of reports x things.

    By task (``processed`` rows, ``busy_s``, ``cpu_s``, ``instances``, ``queue_rows``, ``latency_ms``,
    ``emit_latency_ms``, ``managed_bytes``, ``state_bytes``, and of what its log says ``appended``, ``fetched`` and
    ``lag``), by edge (``produced``, ``dropped``), by machine (``machine_cpu_s``), by application (``heap_live``,
    ``resident``, ``cores``, ``memory``, ``heap``, ``kills``). Rows and seconds are those since the report before.
    """

    tasks: tuple[str, ...]
    times_s: list[float] = field(default_factory=list)
    rows: dict[str, list[Floats]] = field(default_factory=dict)
    _before: Totals | None = None

    @classmethod
    def of(cls, cluster: "Cluster") -> "Series":
        """Return empty series of a cluster."""
        return cls(tuple(task.name for task in cluster.spec.tasks), _before=cluster.totals.copy())

    def table(self, name: str) -> Table:
        """Return a series."""
        return np.array(self.rows[name])

    def task(self, name: str, task: str) -> Floats:
        """Return a series of one task."""
        column: Floats = self.table(name)[:, self.tasks.index(task)]
        return column

    def accuracy(self, cluster: "Cluster", task: str) -> Floats:
        """Return the true accuracy of a task: what part of the rows that came for it took part, report by report.

        ac(t) = kept / appended for sources, else min over t' upstream of ac(t') (1 - dropped(t', t) / out(t', t))
        """
        sink_task = self.tasks.index(task)
        accuracies: dict[int, Floats] = {}
        produced, dropped = self.table("produced"), self.table("dropped")
        for number in range(sink_task + 1):
            if cluster.graph.is_source[number]:
                appended = np.maximum(self.table("appended")[:, number], 1e-12)
                accuracies[number] = np.minimum(1.0, self.table("processed")[:, number] / appended)
                continue
            edges = np.flatnonzero(cluster.graph.consumer == number)
            keeps = [
                accuracies[int(cluster.graph.producer[edge])]
                * (1 - dropped[:, edge] / np.maximum(produced[:, edge], 1e-12))
                for edge in edges
            ]
            accuracies[number] = np.min(keeps, axis=0)
        return accuracies[sink_task]

    def add(self, cluster: "Cluster", report: "MetricReport") -> None:
        """Take what a report says."""
        assert self._before is not None
        top, lately = report.top, report.totals.since(self._before)
        self._before = report.totals
        self.times_s.append(report.time_s)
        tasks, edges = len(self.tasks), len(cluster.spec.edges)
        count = np.bincount(top.task, minlength=tasks)

        def by_task(values: Floats) -> Floats:
            here = values[top.slot]
            return tally(top.task, np.where(np.isnan(here), 0.0, here), tasks)

        records = np.maximum(by_task(lately.records_in), 1e-12)
        log = cluster.log
        self._put("processed", by_task(lately.records_in))
        self._put("busy_s", by_task(lately.busy_s))
        self._put("core_wait_s", by_task(lately.core_wait_s))
        self._put("cpu_s", by_task(lately.cpu_s))
        self._put("instances", count.astype(np.float64))
        self._put("queue_rows", tally(top.task[top.input_instance], cluster.stores.queue, tasks))
        self._put("latency_ms", by_task(report.latency_ms * lately.records_in) / records)
        self._put("emit_latency_ms", by_task(report.emit_ms * lately.records_in) / records)
        self._put("managed_bytes", report.managed * count)
        self._put("state_bytes", by_task(report.state_bytes))
        self._put("appended", tally(log.task, lately.end_offset, tasks))
        self._put("fetched", tally(log.task, lately.fetched, tasks))
        self._put("lag", tally(log.task, log.lag, tasks))
        self._put("produced", tally(top.output_edge, lately.records_out[top.output_slot], edges))
        self._put("dropped", tally(top.output_edge, lately.dropped[top.output_slot], edges))
        self._put("machine_cpu_s", lately.machine_cpu_s)
        self._put("heap_live", report.used[0])
        self._put("resident", report.used[2])
        self._put("cores", report.given[0])
        self._put("memory", report.given[1])
        self._put("heap", report.given[2])
        self._put("kills", lately.application_kills)

    def _put(self, name: str, values: Floats) -> None:
        self.rows.setdefault(name, []).append(np.array(values, np.float64))
