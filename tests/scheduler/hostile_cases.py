"""The job that hostile snapshots begin with, and snapshots of it whose figures are drawn to be impossible."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
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
NEVER_LACKS = {("machines", "cores"), ("queries", "priority"), ("queries", "minimum_accuracy")}
GROUP_COUNTS = (-5, -1, 0, 1, 2, 5, 2**31 - 1)
KINDS = {Floats: "float", Floats | None: "float", Ints: "int", Bools: "bool"}
LENGTH = 8
"""Snapshots of a series."""


def shared_job() -> ClusterSnapshot:
    """Return the job beside another one on its quota, of which nothing is known but what it has."""
    own = job()
    has = {"cores": 2.5, "memory_bytes": 3 * GB, "heap_bytes": 1 * GB, "threads": 2.0}
    figures = {name: getattr(own.applications, name) for name in ApplicationColumns.__dataclass_fields__}
    both = {name: [*values, has.get(name, NAN)] for name, values in figures.items() if values is not None}
    return replace(own, applications=ApplicationColumns(**both | {"name": ("job", "other")}))


def hostile_series(rng: np.random.Generator, count: int) -> Iterator[list[ClusterSnapshot]]:
    """Yield series of snapshots, of a job alone or beside another one, with figures that are impossible or others.

    How much of a series is hostile is drawn, from a twentieth of the columns to two thirds of them: columns lack, have
    impossible figures or such as a job could have at another load, and in a tenth of the snapshots each the time and
    the window are wrong. Drawn by columns, all series at once, as most of the time would go into single draws.
    """
    rows = count * LENGTH
    share = np.repeat(rng.uniform(0.05, 0.67, count), LENGTH)
    seconds = np.repeat(rng.choice([10.0, 60.0, 300.0, 1000.0], count), LENGTH) * (1 + np.arange(rows) % LENGTH)
    times = np.where(rng.random(rows) < 0.1, rng.choice([0.0, NAN, np.inf], rows), seconds)
    windows = np.where(rng.random(rows) < 0.1, rng.choice([1e-300, 1e300, np.inf, 1e-3], rows), 10.0)
    for base, first, last in ((job(), 0, count // 2), (shared_job(), count // 2, count)):
        part = slice(first * LENGTH, last * LENGTH)
        columns = {
            (group, name): _drawn(rng, (group, name), KINDS.get(item.type, ""), getattr(own, name), share[part])
            for group, own in ((group, getattr(base, group)) for group in GROUPS)
            for name, item in own.__dataclass_fields__.items()
        }
        for begin in range(0, (last - first) * LENGTH, LENGTH):
            yield [
                _snapshot(base, columns, row, float(times[part][row]), float(windows[part][row]))
                for row in range(begin, begin + LENGTH)
            ]


def _snapshot(base: ClusterSnapshot, columns: Mapping[Any, Any], row: int, time_s: float, window_s: float) -> Any:
    groups: dict[str, Any] = {}
    for (group, name), drawn in columns.items():
        if drawn is not None and drawn[0][row]:
            is_lacking, values = drawn[1][row], drawn[2]
            groups.setdefault(group, {})[name] = None if is_lacking else values[row]
    parts = {group: replace(getattr(base, group), **changes) for group, changes in groups.items()}
    return replace(base, number=1 + row % LENGTH, time_s=time_s, window_s=window_s, **parts)


def _drawn(rng: np.random.Generator, at: tuple[str, str], kind: str, base: Any, share: Floats) -> Any:
    """Return of a column in which rows it differs, in which it lacks, and its values; None: it is never another."""
    if base is None or not len(base):
        return None
    rows, shape = len(share), (len(share), len(base))
    if kind == "float":
        lacks = np.full(rows, False) if at in NEVER_LACKS else rng.random(rows) < 0.15
        fate = rng.random(shape)
        other = np.where(fate < 0.25, rng.choice(IMPOSSIBLE, shape), base * 10.0 ** rng.uniform(-1.5, 1.5, shape))
        values = np.where(fate < 0.5, other, base)
    elif kind == "bool" and at[1] in ("is_running", "is_stateful"):
        lacks, values = np.full(rows, False), rng.random(shape) < 0.5
    elif at[1] in ("key_groups", "memory_level"):
        lacks, values = np.full(rows, False), rng.choice(GROUP_COUNTS, shape).astype(np.int32)
    else:
        return None
    values.flags.writeable = False
    return rng.random(rows) < share, lacks, values
