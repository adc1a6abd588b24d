"""The job that hostile snapshots begin with, and snapshots of it whose figures are drawn to be impossible."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.model.columns import Bools, Floats, Ints
from penstock.model.snapshot import (
    GROUPS,
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

NAN = float("nan")
GB = 1e9
WALL_NS = 1e10
TASKS = ("lines", "split", "count")


def job(number: int = 10, time_s: float = 100.0, window_s: float = 10.0) -> ClusterSnapshot:
    """Return what is measured of a job whose 'split' and 'count' need three instances each and have two."""
    stateful = [NAN, NAN, NAN]
    return ClusterSnapshot(
        number,
        time_s,
        window_s,
        applications=ApplicationColumns(
            ("job",), [4.0], [8 * GB], [4 * GB], [5.0], [3 * GB], [3 * GB], [7 * GB], [1e8], [3.0], [0.0], [3e10]
        ),
        tasks=TaskColumns(
            TASKS, [0, 0, 0], [True, False, False], [False, False, True], [False, False, True], [False, False, True],
            [128, 128, 128], [-1, -1, 0],
        ),
        edges=EdgeColumns([0, 1], [1, 2], [True, False], [100.0, 100.0]),
        queries=QueryColumns(("counts",), [2], [1.0], [0.5]),
        machines=MachineColumns(
            ("tm0", "tm1", "tm2"), [4.0] * 3, [200.0, 150.0, 20.0], [4 * GB] * 3, [16 * GB] * 3,
            heartbeat_age_s=[1.0] * 3,
        ),
        instances=InstanceColumns(
            [0, 1, 1, 2, 2], [0, 0, 1, 0, 1], [0, 0, 1, 0, 1], [True] * 5,
            records_in=[15_000, 10_000, 10_000, 10_000, 10_000],
            busy_ns=[1e9, 9.9e9, 9.9e9, 9.9e9, 9.9e9],
            remote_wait_ns=[0.0] * 5,
            core_wait_ns=[0.0] * 5,
            input_wait_ns=[0.0, 1e8, 1e8, 1e8, 1e8],
            output_wait_ns=[9e9, 0.0, 0.0, 0.0, 0.0],
            cpu_ns=[1e9, 9.9e9, 9.9e9, 9.9e9, 9.9e9],
            queue_rows=[0.0, 900.0, 900.0, 900.0, 900.0],
            latency_ms=[1.0, 900.0, 900.0, 900.0, 900.0],
            age_s=[900.0] * 5,
            settled_s=[900.0] * 5,
            cache_hits=[*stateful, 9_000.0, 9_000.0],
            cache_misses=[*stateful, 1_000.0, 1_000.0],
            get_ms=[*stateful, 0.1, 0.1],
            get_p90_ms=[*stateful, 0.2, 0.2],
            put_ms=[*stateful, 0.1, 0.1],
            flush_stall_ns=[*stateful, 0.0, 0.0],
            state_bytes=[*stateful, 1e8, 1e8],
            managed_bytes=[0.0, 0.0, 0.0, 165_675_008.0, 165_675_008.0],
            emit_latency_ms=[NAN, NAN, NAN, 50.0, 50.0],
        ),
        outputs=OutputColumns([0, 1, 1], [0, 1, 2], [30_000.0, 10_000.0, 10_000.0], [0.0, 0.0, 0.0]),
        inputs=InputColumns([0, 0, 1, 1], [1, 2, 3, 4], [15_000.0, 15_000.0, 15_000.0, 15_000.0]),
        partitions=PartitionColumns(
            [0, 0], [7_500.0] * 2, [7_500.0] * 2, [100_000.0] * 2, [90_000.0] * 2, [10_000.0] * 2
        ),
        buckets=BucketColumns(
            [2] * 4, [0, 1, 2, 3], [3, 3, 4, 4], [5_000.0] * 4, [5e7] * 4
        ),
        services=ServiceColumns(("geo",), [0], [5.0], [1_000.0], [0.0], [0.0]),
    )  # fmt: skip


def changed(snapshot: ClusterSnapshot, columns: Mapping[str, Any]) -> ClusterSnapshot:
    """Return a snapshot with other figures in some columns, by "group.column"."""
    plain: dict[str, Any] = {name: getattr(snapshot, name) for name in GROUPS}
    for path, values in columns.items():
        group, _, column = path.partition(".")
        own = {name: getattr(plain[group], name) for name in plain[group].__dataclass_fields__}
        plain[group] = type(plain[group])(**{**own, column: values})
    return ClusterSnapshot(snapshot.number, snapshot.time_s, snapshot.window_s, **plain)


IMPOSSIBLE = (NAN, np.inf, -np.inf, -1.0, 0.0, 1e-300, 1e300, 1e18, -1e18, 1e12)
KINDS = {Floats: "float", Floats | None: "float", Ints: "int", Bools: "bool"}


def hostile(rng: np.random.Generator, number: int) -> ClusterSnapshot:
    """Return the job with impossible figures strewn over it, columns that lack, and clocks that are wrong."""
    time_s = float(rng.choice([10.0 * number, 10.0 * number, 10.0 * number, 0.0, NAN, np.inf]))
    window_s = float(rng.choice([10.0, 10.0, 10.0, 1e-300, 1e300, np.inf]))
    base = job(number, time_s, window_s)
    columns: dict[str, Any] = {}
    for group, kind in GROUPS.items():
        own = getattr(base, group)
        for name, item in kind.__dataclass_fields__.items():
            values = getattr(own, name)
            drawn = _drawn(rng, group, name, KINDS.get(item.type, ""), values)
            if drawn is not values:
                columns[f"{group}.{name}"] = drawn
    return changed(base, columns)


def _drawn(rng: np.random.Generator, group: str, name: str, kind: str, values: Any) -> Any:
    if values is None or not kind or rng.random() < 0.6:
        return values
    if kind == "float":
        if rng.random() < 0.2 and (group, name) not in {
            ("machines", "cores"), ("queries", "priority"), ("queries", "minimum_accuracy"),
        }:  # fmt: skip
            return None
        return np.where(rng.random(len(values)) < 0.5, rng.choice(IMPOSSIBLE, len(values)), values)
    if kind == "bool":
        return rng.random(len(values)) < 0.5 if name in ("is_running", "is_stateful") else values
    if name in ("key_groups", "memory_level"):
        return rng.choice([-5, -1, 0, 1, 2**31 - 1], len(values))
    return values
