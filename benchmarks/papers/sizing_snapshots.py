"""Large snapshots on which Sage has work: 40 minutes of `large_snapshot`, and then a change.

What `decision_speed` times `sage` on: the last snapshot, with the ones before it remembered.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.large_snapshots import SnapshotSize, large_snapshot
from penstock.model.snapshot import ApplicationColumns, ClusterSnapshot, ServiceColumns

TICK_S = 60.0
TICKS = 40
"""As many as the longest window needs, with what comes before it."""

KINDS = 8
"""An application's number says which of Sage's rules has work there: the first for 0."""

_GIB = float(1 << 30)
_RISING_TICKS = 9
Array = NDArray[np.float64]


def sizing_snapshots(size: SnapshotSize, seed: int = 0) -> Sequence[ClusterSnapshot]:
    """Return one tick after another: no rule of Sage fires until the last, where one does for nearly all applications.

    The first three kinds use more than they were given; the fourth's backlog, if it reads a log of its own, has risen
    for a whole window; the others were just given three times as much.
    """
    base = _unshed(_over_a_tick(large_snapshot(size, seed)))
    rng = np.random.default_rng([seed, 3])
    kind = np.arange(size.applications, dtype=np.intp) % KINDS
    worked = _worked(base)
    latency_ms = rng.uniform(5.0, 20.0, size.applications)
    return [_at(base, tick, kind, worked, latency_ms * rng.uniform(0.95, 1.05, len(kind))) for tick in range(TICKS)]


def _at(base: ClusterSnapshot, tick: int, kind: NDArray[np.intp], worked: Array, latency_ms: Array) -> ClusterSnapshot:
    is_last = tick == TICKS - 1
    use = [np.where((kind == k) & is_last, 1.0, 0.915) for k in range(3)]
    memory = np.full(len(kind), 8.0 * _GIB)
    heap = 0.25 * memory
    given = [np.where((kind == 4 + k) & is_last, 3.0, 1.0) for k in range(4)]
    # A heap that is in the way of a smaller memory.
    given[0], given[1] = given[0] ** 2, np.maximum(given[0], given[1])
    cores = worked / 0.9
    calls = np.full(len(kind), 1e4)
    partitions = base.partitions
    assert partitions.end_offset is not None and partitions.appended is not None
    owner = kind[base.tasks.application[base.instances.task[partitions.instance]]]
    since = max(0, tick - (TICKS - 1 - _RISING_TICKS))
    behind_s = np.where(owner == 3, 0.1 + 0.01 * since, 0.1)
    return replace(
        base,
        number=tick + 1,
        time_s=TICK_S * (tick + 1),
        applications=ApplicationColumns(
            base.applications.name,
            cores=cores * given[2],
            # What one resource is given leaves the others as they were used.
            memory_bytes=memory * given[1],
            heap_bytes=heap * given[0],
            threads=np.ceil(worked / 0.9 * given[3]),
            heap_used_bytes=heap * use[0],
            heap_committed_bytes=heap * use[0],
            resident_bytes=memory * use[1],
            gc_ns=np.full(len(kind), 0.01 * TICK_S * 1e9),
            gc_count=np.full(len(kind), 10.0),
            throttled_ns=np.zeros(len(kind)),
            cpu_ns=cores * use[2] * TICK_S * 1e9,
            out_of_memory_kills=np.zeros(len(kind)),
            disk_io_bytes=np.full(len(kind), 1e6 * TICK_S),
        ),
        partitions=replace(partitions, position=partitions.end_offset - behind_s * partitions.appended / base.window_s),
        services=ServiceColumns(
            tuple(f"service-{a}" for a in range(len(kind))),
            np.arange(len(kind), dtype=np.int32),
            latency_ms,
            calls,
            np.zeros(len(kind)),
            np.zeros(len(kind)),
        ),
    )


def _worked(base: ClusterSnapshot) -> Array:
    """Return how many threads of each application have work, as a mean."""
    instances = base.instances
    assert instances.busy_ns is not None and instances.core_wait_ns is not None
    wanted_ns = instances.busy_ns + instances.core_wait_ns
    owner = base.tasks.application[instances.task]
    return np.bincount(owner, wanted_ns, len(base.applications)) / (base.window_s * 1e9)


def _over_a_tick(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the same rates over a window as long as a tick."""
    times = TICK_S / snapshot.window_s
    instances = [name for name in snapshot.instances.__dataclass_fields__ if name.endswith("_ns")]
    counts: dict[str, Sequence[str]] = {
        "instances": ["records_in", "cache_hits", "cache_misses", *instances],
        "outputs": ["records_out", "dropped"],
        "inputs": ["offered"],
        "partitions": ["appended", "consumed"],
    }
    longer = {
        group: replace(columns, **{name: getattr(columns, name) * times for name in names})
        for group, names in counts.items()
        for columns in [getattr(snapshot, group)]
    }
    return replace(snapshot, window_s=TICK_S, **longer)


def _unshed(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the same work where nothing is shed: what is fetched is taken, and all that is put out goes on."""
    instances, partitions, outputs = snapshot.instances, snapshot.partitions, snapshot.outputs
    assert instances.records_in is not None
    readers = np.bincount(partitions.instance, minlength=len(instances))[partitions.instance]
    consumed = instances.records_in[partitions.instance] / readers
    return replace(
        snapshot,
        partitions=replace(partitions, consumed=consumed),
        outputs=replace(outputs, dropped=np.zeros(len(outputs))),
    )
