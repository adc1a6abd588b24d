"""Random clusters from a seed: applications of a few tasks, spread over a few machines, with figures of every kind."""

from dataclasses import dataclass, field

import numpy as np

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

NAN = float("nan")


@dataclass(frozen=True)
class Shape:
    """How large clusters are at most, and how often figures are 0 or missing, and instances young."""

    applications: int = 3
    tasks: int = 5
    machines: int = 4
    parallelism: int = 3
    cores: int = 2
    zeros: float = 0.1
    missing: float = 0.0
    young: float = 0.0
    idle_sinks: float = 0.1
    minimums: tuple[float, ...] = (0.0, 0.1, 0.3, 0.4, 0.6, 0.9)
    priorities: int = 3
    cpu_percent: float = 90.0
    joins: bool = True


@dataclass
class _Rows:
    """What grows while a cluster is drawn."""

    application: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    queries: list[int] = field(default_factory=list)
    task_of: list[int] = field(default_factory=list)
    number: list[int] = field(default_factory=list)


def random_snapshot(rng: np.random.Generator, shape: Shape = Shape()) -> ClusterSnapshot:
    """Return a snapshot in which anything may be overloaded, starved or idle; a window of 1 s."""
    rows = _Rows()
    applications = int(rng.integers(1, shape.applications + 1))
    for application in range(applications):
        _application(rng, shape, application, rows)
    tasks, machines = len(rows.application), int(rng.integers(1, shape.machines + 1))
    task_of = np.array(rows.task_of)
    producer = np.array([edge[0] for edge in rows.edges], np.int32)
    consumer = np.array([edge[1] for edge in rows.edges], np.int32)
    n, machine = len(task_of), rng.integers(0, machines, len(task_of))
    of_task = np.bincount(task_of, minlength=tasks)
    is_source = np.ones(tasks, np.bool_)
    is_source[consumer] = False

    def zeroed(values: np.ndarray) -> np.ndarray:
        return np.where(rng.random(len(values)) < shape.zeros, 0.0, values)

    def holed(values: np.ndarray) -> np.ndarray:
        return np.where(rng.random(len(values)) < shape.missing, NAN, values) if shape.missing else values

    out_edge = np.repeat(np.arange(len(producer)), of_task[producer]) if len(producer) else np.zeros(0, np.int64)
    starts = np.concatenate([[0], np.cumsum(of_task)[:-1]])
    out_instance = _spread(starts, of_task, producer)
    records_out = zeroed(rng.uniform(1, 1000, len(out_edge)))
    held = np.flatnonzero(is_source[task_of])
    partition = np.repeat(held, rng.integers(1, 3, len(held)))
    appended = zeroed(rng.uniform(1, 1000, len(partition)))
    offered = np.bincount(consumer, np.bincount(out_edge, records_out, len(producer)), tasks) if len(producer) else None
    offered = np.zeros(tasks) if offered is None else offered
    offered = offered + np.bincount(task_of[partition], appended, tasks)
    records_in = offered[task_of] / of_task[task_of] * zeroed(np.minimum(1.0, rng.uniform(0.2, 1.5, n)))
    in_edge = np.repeat(np.arange(len(consumer)), of_task[consumer]) if len(consumer) else np.zeros(0, np.int64)
    in_instance = _spread(starts, of_task, consumer)
    edge_rows = np.bincount(out_edge, records_out, len(producer)) if len(producer) else np.zeros(0)
    cpu = zeroed(rng.uniform(0, shape.cpu_percent, n))
    cores = rng.integers(1, shape.cores + 1, machines).astype(np.float64)
    used = np.bincount(machine, cpu, machines)
    lag = rng.uniform(0, 500, len(partition))
    return ClusterSnapshot(
        number=int(rng.integers(0, 1000)),
        time_s=float(rng.integers(0, 1000)),
        window_s=1.0,
        applications=ApplicationColumns(tuple(f"a{i}" for i in range(applications))),
        tasks=TaskColumns(
            tuple(f"t{i}" for i in range(tasks)),
            rows.application,
            is_source,
            ~np.isin(np.arange(tasks), producer),
            rng.random(tasks) < 0.5,
            np.ones(tasks, np.bool_),
            np.full(tasks, 128),
            np.zeros(tasks, np.int32),
        ),
        edges=EdgeColumns(producer, consumer, np.zeros(len(producer), np.bool_)),
        queries=QueryColumns(
            tuple(f"q{i}" for i in range(len(rows.queries))),
            rows.queries,
            rng.integers(1, shape.priorities + 1, len(rows.queries)),
            rng.choice(shape.minimums, len(rows.queries)),
        ),
        machines=MachineColumns(
            tuple(f"m{i}" for i in range(machines)), cores, used + zeroed(rng.uniform(0, 30, machines))
        ),
        instances=InstanceColumns(
            rows.task_of,
            rows.number,
            machine,
            np.ones(n, np.bool_),
            records_in=holed(records_in),
            cpu_ns=holed(cpu * 1e7),
            age_s=np.where(rng.random(n) < shape.young, 1.0, 1000.0),
        ),
        outputs=OutputColumns(out_edge, out_instance, holed(records_out), np.zeros(len(out_edge))),
        inputs=InputColumns(in_edge, in_instance, edge_rows[in_edge] / of_task[consumer[in_edge]]),
        partitions=PartitionColumns(
            partition,
            appended,
            appended,
            end_offset=1000.0 + lag,
            position=np.full(len(partition), 1000.0),
            lag_max=lag,
        ),
    )


def _application(rng: np.random.Generator, shape: Shape, application: int, rows: _Rows) -> None:
    first, count = len(rows.application), int(rng.integers(1, shape.tasks + 1))
    fed = set()
    for at in range(count):
        task = first + at
        rows.application.append(application)
        instances = int(rng.integers(1, shape.parallelism + 1))
        rows.task_of += [task] * instances
        rows.number += range(instances)
        if at and rng.random() < 0.85:
            for above in rng.choice(at, min(at, int(rng.integers(1, 3)) if shape.joins else 1), replace=False).tolist():
                rows.edges.append((first + above, task))
                fed.add(first + above)
    for task in range(first, first + count):
        if task not in fed and rng.random() >= shape.idle_sinks:
            rows.queries += [task] * int(rng.integers(1, 3) if rng.random() < 0.2 else 1)


def _spread(starts: np.ndarray, of_task: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Return the instances of these tasks, one task after another."""
    parts = [np.arange(starts[t], starts[t] + of_task[t]) for t in tasks]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
