"""Snapshots of 2,000 and of 100,000 instances on which every policy has work: what `decision_speed` times them on.

A third of the machines cannot keep all minimums, on all of them accuracy is to be shared out, and every operator is too
small for what it is offered.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.model.columns import Ints
from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    EdgeColumns,
    InputColumns,
    InstanceColumns,
    MachineColumns,
    OutputColumns,
    PartitionColumns,
    QueryColumns,
    TaskColumns,
)

WINDOW_S = 5.0
_WALL_NS = WINDOW_S * 1e9
Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SnapshotSize:
    """Sizes of everything in a snapshot; applications take turns in reading the sources."""

    name: str
    instances: int
    tasks: int
    applications: int
    machines: int
    sources: int


SIZES = (
    SnapshotSize("2,000 on 2 machines", 2_000, 500, 50, 2, 50),
    SnapshotSize("2,000 on 100 machines", 2_000, 500, 50, 100, 50),
    SnapshotSize("100,000 on 1,000 machines", 100_000, 5_000, 500, 1_000, 20),
)


@dataclass(frozen=True, slots=True)
class _Graph:
    """Tasks by application, edges, and sinks."""

    application: list[int]
    edges: list[tuple[int, int]]
    sinks: list[int]


def large_snapshot(size: SnapshotSize, seed: int = 0) -> ClusterSnapshot:
    """Return a snapshot of this size: three priorities, two queries an application, hash and rebalance exchanges."""
    rng = np.random.default_rng(seed)
    graph = _graph(size)
    producer, consumer = np.array(graph.edges, np.intp).T
    task = np.repeat(np.arange(size.tasks), size.instances // size.tasks)
    each = size.instances // size.tasks
    # An application keeps to some of the machines, so that not all are short of CPU because some are.
    begin = np.array(graph.application) * size.machines // size.applications
    spread = max(2, size.machines // 10)
    machine = (np.repeat(begin, each) + rng.integers(0, spread, size.instances)) % size.machines
    offered_rate = rng.uniform(500.0, 2_000.0, size.tasks)
    # Rows are lost at sources only, so that a task's accuracy is the least of those it reads from.
    accuracy = np.where(np.arange(size.tasks) < size.sources, rng.uniform(0.6, 1.0, size.tasks), 1.0)
    source_of = np.array([a % size.sources for a in graph.application])
    taken = np.repeat(offered_rate * accuracy / each, each)
    cpu = np.repeat(rng.uniform(5.0, 30.0, size.tasks), each) * rng.uniform(0.97, 1.03, size.instances)
    minimum = rng.uniform(0.2, 0.7, len(graph.sinks))
    cores, cpu_percent = _machines(rng, size, machine, cpu, np.repeat(accuracy[source_of], each))
    # What a task is offered comes in equal parts from the tasks above it.
    above = np.bincount(consumer, minlength=size.tasks)
    edge_rows = offered_rate[consumer] * WINDOW_S / above[consumer]
    busy = rng.uniform(0.55, 0.75, size.instances) * _WALL_NS
    wait_core, wait_out = 0.2 * _WALL_NS, 0.05 * _WALL_NS
    is_source = np.arange(size.tasks) < size.sources
    partition = np.flatnonzero(is_source[task])
    appended = np.repeat(offered_rate[: size.sources] / each, each) * WINDOW_S
    n = size.instances
    return ClusterSnapshot(
        number=1,
        time_s=1_000.0,
        window_s=WINDOW_S,
        applications=ApplicationColumns(tuple(f"application-{a}" for a in range(size.applications))),
        tasks=TaskColumns(
            tuple(f"task-{t}" for t in range(size.tasks)),
            _ints(graph.application),
            is_source,
            np.isin(np.arange(size.tasks), graph.sinks),
            ~is_source,
            ~is_source,
            _ints([128] * size.tasks),
            _ints([0] * size.tasks),
            np.where(is_source, offered_rate, np.nan),
        ),
        edges=EdgeColumns(
            _ints(producer), _ints(consumer), np.arange(len(producer)) % 2 == 0, np.full(len(producer), 100.0)
        ),
        queries=QueryColumns(
            tuple(f"query-{q}" for q in range(len(graph.sinks))),
            _ints(graph.sinks),
            (1 + np.arange(len(graph.sinks)) // 2 % 3).astype(np.float64),
            minimum,
        ),
        machines=MachineColumns(
            tuple(f"machine-{m}" for m in range(size.machines)),
            cores,
            cpu_percent,
            network_limit_bytes=np.full(size.machines, 125e6),
            network_data_bytes=np.full(size.machines, 50e6),
            network_heartbeat_bytes=np.zeros(size.machines),
            network_checkpoint_bytes=np.zeros(size.machines),
            network_other_bytes=np.zeros(size.machines),
        ),
        instances=InstanceColumns(
            _ints(task),
            _ints(np.arange(n) % each),
            _ints(machine),
            np.ones(n, np.bool_),
            records_in=taken * WINDOW_S,
            busy_ns=busy,
            remote_wait_ns=np.zeros(n),
            core_wait_ns=np.full(n, wait_core),
            input_wait_ns=_WALL_NS - busy - wait_core - wait_out,
            output_wait_ns=np.full(n, wait_out),
            cpu_ns=cpu / 100.0 * _WALL_NS,
            queue_rows=rng.uniform(0.0, 1_000.0, n),
            latency_ms=rng.uniform(1.0, 900.0, n),
            age_s=np.full(n, 1_000.0),
            settled_s=np.full(n, 1_000.0),
            cache_hits=np.full(n, 600.0),
            cache_misses=np.full(n, 400.0),
            get_ms=np.full(n, 0.5),
            get_p90_ms=np.full(n, 1.5),
            put_ms=np.full(n, 0.5),
            flush_stall_ns=np.zeros(n),
            state_bytes=np.full(n, 1e9),
            managed_bytes=np.full(n, 158.0 * 2**20),
            emit_latency_ms=np.full(n, 50.0),
        ),
        outputs=OutputColumns(
            *_ends(producer, each), np.repeat(edge_rows / each, each), np.zeros(len(producer) * each)
        ),
        inputs=InputColumns(*_ends(consumer, each), np.repeat(edge_rows / each, each)),
        partitions=PartitionColumns(
            _ints(partition),
            appended,
            appended,
            end_offset=np.full(len(partition), 2e6),
            position=2e6 - rng.uniform(0.0, 10.0, len(partition)),
            lag_max=np.full(len(partition), 10.0),
        ),
    )


def waiting_snapshot(size: SnapshotSize, seed: int = 0) -> ClusterSnapshot:
    """Return the same, but that a tenth of the instances wait to be placed and were never started."""
    snapshot = large_snapshot(size, seed)
    waits = np.random.default_rng([seed, 1]).random(size.instances) < 0.1
    instances = snapshot.instances
    assert instances.cpu_ns is not None and instances.age_s is not None
    return replace(
        snapshot,
        instances=replace(
            instances,
            is_running=~waits,
            cpu_ns=np.where(waits, np.nan, instances.cpu_ns),
            age_s=np.where(waits, np.nan, instances.age_s),
        ),
    )


def _graph(size: SnapshotSize) -> _Graph:
    """Return chains that fork into two sinks at their end, one of which also takes from further up."""
    graph = _Graph([s % size.applications for s in range(size.sources)], [], [])
    for a in range(size.applications):
        left = size.tasks - len(graph.application)
        first, count = len(graph.application), -(-left // (size.applications - a))
        chain = [a % size.sources, *range(first, first + count - 1)]
        last = first + count - 1
        graph.application.extend([a] * count)
        graph.edges.extend(pairwise(chain))
        graph.edges.extend([(chain[-2], last), (chain[1], last)])
        graph.sinks.extend([chain[-1], last])
    return graph


def _machines(
    rng: np.random.Generator, size: SnapshotSize, machine: Rows, cpu: Array, accuracy: Array
) -> tuple[Array, Array]:
    """Return cores and CPU in use: a third have no room for minimums, the others for more."""
    whole = np.bincount(machine, cpu / accuracy, size.machines)
    is_short = np.arange(size.machines) < np.ceil(size.machines / 3)
    cores = whole / 100.0 * np.where(is_short, rng.uniform(0.42, 0.5, size.machines), 0.8)
    return cores.astype(np.float64), np.bincount(machine, cpu, size.machines).astype(np.float64) + 5.0


def _ends(task: Rows, each: int) -> tuple[Ints, Ints]:
    """Return the edges and the instances at one end of them, every instance of that task."""
    edge = np.repeat(np.arange(len(task)), each)
    return _ints(edge), _ints((task[:, None] * each + np.arange(each)).ravel())


def _ints(values: ArrayLike) -> Ints:
    return np.asarray(values, np.int32)
