"""From what was counted between two reports to the columns of the metric contract. Called by `reports`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.reuse import reuse_of
from penstock.benchmarks.papers.cluster_model.tallies import bools, floats, ints
from penstock.benchmarks.papers.cluster_model.topology import Indices
from penstock.benchmarks.papers.cluster_model.totals import Totals
from penstock.model.columns import Floats
from penstock.model.snapshot import (
    ApplicationColumns,
    BucketColumns,
    ClusterSnapshot,
    EdgeColumns,
    InputColumns,
    InstanceColumns,
    MachineColumns,
    OutputColumns,
    PartitionColumns,
    QueryColumns,
    ServiceColumns,
    TaskColumns,
)

if TYPE_CHECKING:
    from penstock.benchmarks.papers.cluster_model.reports import MetricReport

NS = 1e9


@dataclass(frozen=True, slots=True)
class ReportWindow:
    """A window that ended at ``time_s``: the report at its end, and what was counted in it."""

    number: int
    time_s: float
    window_s: float
    report: "MetricReport"
    counted: Totals


def snapshot_of(cluster: Cluster, window: ReportWindow) -> ClusterSnapshot:
    """Return what is known of the machines that have joined and the applications that have started by then."""
    applications = sum(item.starts_s <= window.time_s + 1e-9 for item in cluster.spec.applications)
    machines = sum(item.joins_s <= window.time_s + 1e-9 for item in cluster.spec.machines)
    tasks = int((cluster.graph.application < applications).sum())
    edges = int((cluster.graph.consumer < tasks).sum())
    rows = np.flatnonzero(window.report.top.task < tasks)
    place = np.full(window.report.top.count, -1)
    place[rows] = np.arange(len(rows))
    blur = _Blur(cluster)
    missing = blur.missing(len(rows))
    return ClusterSnapshot(
        window.number,
        window.time_s,
        window.window_s,
        applications=_applications(cluster, window, applications, blur),
        tasks=_tasks(cluster, window, tasks),
        edges=_edges(cluster, edges),
        queries=_queries(cluster, tasks),
        machines=_machines(cluster, window, machines, blur),
        instances=_instances(cluster, window, rows, blur, missing),
        outputs=_outputs(cluster, window, edges, place, blur, missing),
        inputs=_inputs(window, edges, place, blur, missing),
        partitions=_partitions(cluster, window, tasks, place, blur),
        buckets=_buckets(cluster, window, tasks, place, blur),
        services=_services(cluster, window, applications, blur),
        reuse=reuse_of(cluster, window.counted, tasks),
    )


class _Blur:
    """Reporters' noise on figures: a normal factor, and some reports missing."""

    def __init__(self, cluster: Cluster) -> None:
        self._random = cluster.reporting
        self._noise = cluster.spec.reports.noise_share
        self._missing = cluster.spec.reports.missing_probability

    def __call__(self, values: Floats, missing: Floats | None = None) -> Floats:
        if self._noise > 0:
            values = values * np.maximum(0.0, 1 + self._noise * self._random.standard_normal(len(values)))
        return values if missing is None else np.where(missing > 0, np.nan, values)

    def missing(self, count: int) -> Floats:
        if self._missing <= 0:
            return np.zeros(count)
        return (self._random.random(count) < self._missing).astype(np.float64)


def _applications(cluster: Cluster, window: ReportWindow, count: int, blur: _Blur) -> ApplicationColumns:
    counted, report = window.counted, window.report
    missing = blur.missing(count)
    first = slice(0, count)
    threads = np.bincount(report.top.application, minlength=len(cluster.spec.applications)).astype(np.float64)

    def given(row: int) -> Floats:
        values = report.given[row][first]
        return np.where(np.isfinite(values), values, np.nan)

    return ApplicationColumns(
        tuple(item.name for item in cluster.spec.applications[:count]),
        cores=given(0),
        memory_bytes=given(1),
        heap_bytes=given(2),
        threads=threads[first],
        heap_used_bytes=blur(report.used[0][first], missing),
        heap_committed_bytes=blur(report.used[1][first], missing),
        resident_bytes=blur(report.used[2][first], missing),
        gc_ns=blur(counted.gc_s[first] * NS, missing),
        gc_count=blur(counted.gc_count[first], missing),
        throttled_ns=blur(counted.throttled_s[first] * NS, missing),
        cpu_ns=blur(counted.application_cpu_s[first] * NS, missing),
        out_of_memory_kills=counted.application_kills[first],
        disk_io_bytes=blur(counted.disk_io_bytes[first], missing),
    )


def _tasks(cluster: Cluster, window: ReportWindow, count: int) -> TaskColumns:
    specs = cluster.spec.tasks[:count]
    target = np.full(count, np.nan)
    for source in cluster.spec.sources:
        task = next(index for index, item in enumerate(cluster.spec.tasks) if item.name == source.task)
        if source.target_rate and task < count:
            target[task] = source.rate(window.time_s)
    producers = cluster.graph.producer
    return TaskColumns(
        tuple(task.name for task in specs),
        application=ints(cluster.graph.application[:count]),
        is_source=cluster.graph.is_source[:count],
        is_sink=np.isin(np.arange(count), producers, invert=True),
        is_stateful=bools([task.state is not None for task in specs]),
        is_keyed=bools([task.is_keyed for task in specs]),
        key_groups=ints([task.key_groups for task in specs]),
        memory_level=ints(window.report.level[:count].astype(np.int32)),
        target_rate=None if np.isnan(target).all() else target,
    )


def _edges(cluster: Cluster, count: int) -> EdgeColumns:
    return EdgeColumns(
        ints(cluster.graph.producer[:count]),
        ints(cluster.graph.consumer[:count]),
        bools([edge.exchange == "free" for edge in cluster.spec.edges[:count]]),
        cluster.row_bytes[:count],
        # Rows of a free exchange go to whoever has room, those of a hash exchange by their keys.
        bools([False] * count),
    )


def _queries(cluster: Cluster, tasks: int) -> QueryColumns:
    numbers = {task.name: index for index, task in enumerate(cluster.spec.tasks[:tasks])}
    queries = [query for query in cluster.spec.queries if query.task in numbers]
    return QueryColumns(
        tuple(query.name for query in queries),
        ints([numbers[query.task] for query in queries]),
        floats([query.priority for query in queries]),
        floats([query.minimum_accuracy for query in queries]),
    )


def _machines(cluster: Cluster, window: ReportWindow, count: int, blur: _Blur) -> MachineColumns:
    counted, specs = window.counted, cluster.spec.machines[:count]
    missing, first = blur.missing(count), slice(0, count)
    limit = np.array([item.link_bytes_per_s for item in specs])
    return MachineColumns(
        tuple(item.name for item in specs),
        floats([item.cores for item in specs]),
        cpu_percent=blur(100 * counted.machine_cpu_s[first] / window.window_s, missing),
        # A machine here is no loop that could rest; an application's throttling is its own column.
        rest_percent=np.full(len(specs), np.nan),
        resident_bytes=blur(window.report.machine_resident[first], missing),
        memory_limit_bytes=floats([item.memory_bytes for item in specs]),
        out_of_memory_kills=counted.machine_kills[first],
        disk_bytes=blur(counted.machine_disk_bytes[first], missing),
        network_limit_bytes=np.where(np.isfinite(limit), limit, np.nan),
        network_data_bytes=blur(counted.network_data_bytes[first], missing),
        network_heartbeat_bytes=blur(cluster.links.heartbeat[first] * window.window_s, missing),
        network_checkpoint_bytes=blur(counted.network_checkpoint_bytes[first], missing),
        network_other_bytes=blur(counted.network_other_bytes[first], missing),
        heartbeat_age_s=cluster.time_s - np.minimum(window.time_s, [item.leaves_s for item in specs]),
    )


def _instances(
    cluster: Cluster, window: ReportWindow, chosen: Indices, blur: _Blur, missing: Floats
) -> InstanceColumns:
    top, counted, report = window.report.top, window.counted, window.report
    slot = top.slot[chosen]
    stateful = np.array([item.state is not None for item in cluster.spec.tasks])[top.task[chosen]]

    def of(values: Floats, factor: float = 1.0) -> Floats:
        return blur(values[slot] * factor, missing)

    def state(values: Floats, factor: float = 1.0) -> Floats:
        return np.where(stateful, of(values, factor), np.nan)

    ms = 1e3 / window.window_s
    return InstanceColumns(
        task=ints(top.task[chosen]),
        number=ints(top.number[chosen]),
        machine=ints(top.place[chosen]),
        is_running=report.running[chosen],
        records_in=of(counted.records_in),
        busy_ns=of(counted.busy_s, NS),
        remote_wait_ns=of(counted.remote_s, NS),
        core_wait_ns=of(counted.core_wait_s, NS),
        input_wait_ns=of(counted.input_wait_s, NS),
        output_wait_ns=of(counted.output_wait_s, NS),
        cpu_ns=of(counted.cpu_s, NS),
        # Loops have no steps here, so none are measured.
        steps=np.full(len(slot), np.nan),
        queue_rows=of(counted.queue_rows_s, 1 / window.window_s),
        latency_ms=of(report.latency_ms),
        age_s=np.where(top.machine[chosen] >= 0, report.age_s[slot], np.nan),
        settled_s=report.settled_s[slot],
        cache_hits=state(counted.cache_hits),
        cache_misses=state(counted.cache_misses),
        get_ms=state(counted.get_s, ms),
        get_p90_ms=state(counted.get_p90_s, ms),
        put_ms=state(counted.put_s, ms),
        flush_stall_ns=state(counted.stall_s, NS),
        state_bytes=state(report.state_bytes),
        managed_bytes=np.where(stateful, report.managed[top.task[chosen]], 0.0),
        emit_latency_ms=of(report.emit_ms),
    )


def _outputs(
    cluster: Cluster, window: ReportWindow, edges: int, place: Indices, blur: _Blur, missing: Floats
) -> OutputColumns:
    top = window.report.top
    rows = np.flatnonzero(top.output_edge < edges)
    instance = place[top.output_instance[rows]]
    slot, absent = top.output_slot[rows], missing[instance]
    out = blur(window.counted.records_out[slot], absent)
    dropped = blur(window.counted.dropped[slot], absent)
    return OutputColumns(ints(top.output_edge[rows]), ints(instance), out, dropped)


def _inputs(window: ReportWindow, edges: int, place: Indices, blur: _Blur, missing: Floats) -> InputColumns:
    top = window.report.top
    rows = np.flatnonzero(top.input_edge < edges)
    instance = place[top.input_instance[rows]]
    return InputColumns(
        ints(top.input_edge[rows]),
        ints(instance),
        blur(window.counted.offered[top.input_slot[rows]], missing[instance]),
    )


def _partitions(cluster: Cluster, window: ReportWindow, tasks: int, place: Indices, blur: _Blur) -> PartitionColumns:
    rows = np.flatnonzero(cluster.log.task < tasks)
    missing = blur.missing(len(rows))
    counted, report = window.counted, window.report
    reports = max(1, round(window.window_s / cluster.spec.reports.every_s))
    return PartitionColumns(
        ints(place[report.reader[rows]]),
        appended=np.where(missing > 0, np.nan, counted.end_offset[rows]),
        consumed=blur(counted.fetched[rows], missing),
        end_offset=np.where(missing > 0, np.nan, report.totals.end_offset[rows]),
        position=np.where(missing > 0, np.nan, report.position[rows]),
        lag_max=blur(counted.lag_sum[rows] / reports, missing),
    )


def _buckets(cluster: Cluster, window: ReportWindow, tasks: int, place: Indices, blur: _Blur) -> BucketColumns:
    report = window.report
    keyed = [task for task in range(tasks) if cluster.spec.tasks[task].is_keyed]
    if not keyed:
        return BucketColumns.none()
    count = np.array([cluster.spec.tasks[task].key_groups for task in keyed])
    task = np.repeat(keyed, count)
    bucket = np.concatenate([np.arange(item) for item in count])
    at = cluster.buckets[task] + bucket
    instance = place[report.top.first[task] + report.bucket_instance[at]]
    records = blur(window.counted.bucket_records[at])
    return BucketColumns(ints(task), ints(bucket), ints(instance), records, report.bucket_bytes[at])


def _services(cluster: Cluster, window: ReportWindow, applications: int, blur: _Blur) -> ServiceColumns:
    names = {item.name: index for index, item in enumerate(cluster.spec.applications[:applications])}
    rows = [index for index, item in enumerate(cluster.spec.services) if item.application in names]
    if not rows:
        return ServiceColumns.none()
    counted = window.counted
    calls = counted.calls[rows]
    latency = np.where(calls > 0, 1e3 * counted.call_latency_s[rows] / np.maximum(calls, 1e-12), np.nan)
    missing = blur.missing(len(rows))
    return ServiceColumns(
        tuple(cluster.spec.services[row].name for row in rows),
        ints([names[cluster.spec.services[row].application] for row in rows]),
        latency_ms=blur(latency, missing),
        calls=blur(calls, missing),
        errors=blur(counted.errors[rows], missing),
        retries=blur(counted.retries[rows], missing),
    )
