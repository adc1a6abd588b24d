"""Slow changes of a simulated cluster: state, services, heap, checkpoints, and with them what rows cost.

The cluster (docs/design/simulated-cluster.md 4, 7, 8) calls it about once a second, and whenever its layout changes.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.benchmarks.papers.cluster_model import heap
from penstock.benchmarks.papers.cluster_model.costs import CostInputs, costs_of
from penstock.benchmarks.papers.cluster_model.keyed_state import KeyedState
from penstock.benchmarks.papers.cluster_model.tallies import floats, tally
from penstock.model.columns import Bools, Floats

if TYPE_CHECKING:
    from penstock.benchmarks.papers.cluster_model.cluster import Cluster


@dataclass(frozen=True, slots=True)
class EdgeFigures:
    """Figures of edges as columns."""

    selectivity: Floats
    delay_s: Floats
    row_bytes: Floats


@dataclass(frozen=True, slots=True)
class ApplicationFigures:
    """Figures of applications as columns."""

    allocated_bytes: Floats
    buffer_overhead: Floats
    checkpoint_s: Floats
    gc_s_per_byte: Floats
    heap_state_share: Floats
    live_base_bytes: Floats
    nonheap_bytes: Floats
    restart_s: Floats
    thread_bytes: Floats


def slow_tick(cluster: "Cluster") -> None:
    """Let what changes slowly catch up with the time."""
    dt = cluster.time_s - cluster.slow_since_s
    cluster.slow_since_s = cluster.time_s
    cluster.rate[cluster.top.slot] = cluster.lately / dt
    _services(cluster, dt)
    for task, state in cluster.states.items():
        _state(cluster, task, state, dt)
    for task, item in enumerate(cluster.spec.tasks):
        if item.is_keyed:
            begin = cluster.buckets[task]
            cluster.totals.bucket_records[begin : begin + item.key_groups] += _bucket_rows(cluster, task)
    _heap(cluster)
    _checkpoints(cluster)
    cluster.lately = np.zeros(cluster.top.count)
    look_again(cluster)


def look_again(cluster: "Cluster") -> None:
    """Find out anew what rows cost and weigh."""
    top = cluster.top
    factor = _bytes_factor(cluster)
    cluster.row_bytes = cluster.edges.row_bytes * factor[cluster.graph.application[cluster.graph.producer]]
    cluster.access = {}
    for task, state in cluster.states.items():
        count = cluster.layout.parallelism(task)
        cluster.access[task] = state.costs(cluster.layout.owners[task], np.full(count, cluster.managed[task]))
    allocated = cluster.applications.allocated_bytes * factor
    s_per_byte = cluster.applications.gc_s_per_byte
    garbage = heap.collection_s(allocated, cluster.live, cluster.heap, s_per_byte)
    now = CostInputs(
        rate=cluster.rate[top.slot],
        age_s=np.maximum(0.0, cluster.time_s - cluster.started[top.slot]),
        garbage_s=garbage[top.application],
        keep=cluster.source_keep[top.task],
        parallelism=cluster.parallelism[top.task].astype(np.float64),
        access=cluster.access,
    )
    cluster.costs = costs_of(top, cluster.figures, now, cluster.services)
    cluster.checkpoint_rate = np.zeros(len(cluster.spec.machines))
    for task, state in cluster.states.items():
        spec = cluster.spec.applications[cluster.graph.application[task]]
        machines = np.maximum(np.array(cluster.layout.machines[task])[cluster.layout.owners[task]], 0)
        bytes_per_s = state.bucket_bytes * spec.checkpoint_share / spec.checkpoint_s
        cluster.checkpoint_rate += tally(machines, bytes_per_s, len(cluster.spec.machines))


def drop_queues(cluster: "Cluster", applications: Bools) -> None:
    """Forget what waits in these applications: it comes again from the log, behind the last checkpoint."""
    top, stores = cluster.top, cluster.stores
    mine = applications[top.application]
    of_inputs = mine[top.input_instance]
    for rows in (stores.queue, stores.flying):
        rows[of_inputs] = 0.0
    for rows in (stores.held, stores.pending):
        rows[mine] = 0.0
    cluster.log.rewind(applications[cluster.graph.application])
    for task, state in cluster.states.items():
        if applications[cluster.graph.application[task]]:
            state.move(np.arange(cluster.layout.parallelism(task)))


def _services(cluster: "Cluster", dt: float) -> None:
    if not len(cluster.spec.services):
        return
    rows = tally(cluster.top.task, cluster.lately, len(cluster.spec.tasks))
    service = cluster.figures.service.astype(np.int64)
    calls = np.where(service >= 0, rows * cluster.figures.calls, 0.0)
    per_service = tally(np.maximum(service, 0), calls, len(cluster.spec.services))
    cluster.services.advance(per_service, cluster.time_s, dt, cluster.answers)
    totals, services = cluster.totals, cluster.services
    totals.calls[:], totals.errors[:], totals.retries[:] = services.calls, services.errors, services.retries
    totals.call_latency_s[:] = services.latency_sum_s


def _bucket_rows(cluster: "Cluster", task: int) -> Floats:
    """Return the rows that came for each bucket lately."""
    owners, shares = cluster.layout.owners[task], cluster.layout.bucket_shares[task]
    count = cluster.layout.parallelism(task)
    first = cluster.top.first[task]
    share = tally(owners, shares, count)
    per_share = cluster.lately[first : first + count] / np.maximum(share, 1e-300)
    return shares * per_share[owners]


def _state(cluster: "Cluster", task: int, state: KeyedState, dt: float) -> None:
    count, first = cluster.layout.parallelism(task), cluster.top.first[task]
    rows = cluster.lately[first : first + count]
    slot = cluster.top.slot[first : first + count]
    access, totals, spec = cluster.access[task], cluster.totals, state.spec
    gets = rows * spec.gets
    misses = gets * (1 - access.hit_rate)
    totals.cache_hits[slot] += gets - misses
    totals.cache_misses[slot] += misses
    totals.get_s[slot] += access.get_s * dt
    totals.get_p90_s[slot] += access.get_p90_s * dt
    totals.put_s[slot] += access.put_s * dt
    disk = misses * spec.block_bytes + rows * spec.puts * spec.put_bytes
    machines = np.maximum(cluster.top.machine[first : first + count], 0)
    totals.machine_disk_bytes += tally(machines, disk, len(cluster.spec.machines))
    totals.disk_io_bytes[cluster.graph.application[task]] += disk.sum()
    managed = np.full(count, cluster.managed[task])
    state.advance(_bucket_rows(cluster, task), cluster.layout.owners[task], misses, managed, dt)


def _heap(cluster: "Cluster") -> None:
    """Let garbage be collected, and kill what is too large."""
    top, count = cluster.top, len(cluster.spec.applications)
    rows = tally(top.application, cluster.lately, count)
    factor = _bytes_factor(cluster)
    allocated = rows * cluster.applications.allocated_bytes * factor
    s_per_byte = cluster.applications.gc_s_per_byte
    cluster.totals.gc_s += heap.collection_s(allocated, cluster.live, cluster.heap, s_per_byte)
    cluster.totals.gc_count += heap.collections(allocated, cluster.live, cluster.heap)
    waiting = (cluster.stores.queue + cluster.stores.flying) * cluster.row_bytes[top.input_edge]
    state = np.zeros(count)
    managed = np.zeros(count)
    for task, held in cluster.states.items():
        state[cluster.graph.application[task]] += held.bucket_bytes.sum()
        managed[cluster.graph.application[task]] += cluster.managed[task] * cluster.layout.parallelism(task)
    cluster.live = heap.live_bytes(
        cluster.applications.live_base_bytes,
        tally(top.application[top.input_instance], waiting, count),
        cluster.applications.buffer_overhead,
        state,
        cluster.applications.heap_state_share,
    )
    cluster.committed = heap.committed_bytes(cluster.committed, cluster.live, cluster.heap)
    threads = np.bincount(top.application, minlength=count)
    other = cluster.applications.nonheap_bytes
    each = cluster.applications.thread_bytes
    cluster.resident = cluster.committed + other + each * threads + managed
    up = cluster.down_until <= cluster.time_s + 1e-9
    killed = up & heap.killed(cluster.live, cluster.heap, cluster.resident, cluster.memory)
    if killed.any():
        cluster.totals.application_kills += killed
        at = np.unique(np.stack((top.application, np.maximum(top.machine, 0))), axis=1)
        cluster.totals.machine_kills += tally(at[1], killed[at[0]], len(cluster.spec.machines))
        restart = cluster.applications.restart_s
        cluster.down_until = np.where(killed, cluster.time_s + restart, cluster.down_until)
        cluster.committed[killed] = 0.0
        cluster.started[top.slot[killed[top.application]]] = cluster.time_s
        cluster.touched[top.slot[killed[top.application]]] = cluster.time_s
        drop_queues(cluster, killed)


def _checkpoints(cluster: "Cluster") -> None:
    due = cluster.time_s - cluster.saved_s >= cluster.applications.checkpoint_s - 1e-9
    due &= cluster.down_until <= cluster.time_s + 1e-9
    if due.any():
        cluster.saved_s = np.where(due, cluster.time_s, cluster.saved_s)
        cluster.log.save(due[cluster.graph.application])


def _bytes_factor(cluster: "Cluster") -> Floats:
    return floats(item.bytes_factor(cluster.time_s) for item in cluster.spec.applications)
