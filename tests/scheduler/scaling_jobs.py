"""Jobs for the tests of scalers: tasks of a known speed, and what a cluster would measure of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    EdgeColumns,
    InstanceColumns,
    MachineColumns,
    OutputColumns,
    ReuseColumns,
    TaskColumns,
)


@dataclass(frozen=True)
class Task:
    """``rate``: rows that an instance takes in a useful second; None for a source, which is never in the way."""

    name: str
    rate: float | None
    parallelism: int = 1
    is_stateful: bool = False
    level: int = 0
    managed: float = 158 * 2**20
    hits: float = 0.0
    misses: float = 0.0
    get_ms: float = 0.0
    stall_share: float = 0.0
    key_groups: int = 128


@dataclass(frozen=True)
class Job:
    """A job: tasks without edges into them are sources; ``edges`` are (producer, consumer, rows for a row)."""

    tasks: Sequence[Task]
    edges: Sequence[tuple[int, int, float]]
    target: float
    name: str = "job"
    reuse: Sequence[tuple[int, float, float]] = ()

    def sized(self, parallelism: Sequence[int]) -> "Job":
        return replace(
            self, tasks=[replace(task, parallelism=int(p)) for task, p in zip(self.tasks, parallelism, strict=True)]
        )

    def wanted(self) -> np.ndarray:
        """Return the rows a second that each task would take if nothing held them up."""
        rates = np.zeros(len(self.tasks))
        for task in range(len(self.tasks)):
            above = [(i, ratio) for i, j, ratio in self.edges if j == task]
            rates[task] = sum(rates[i] * ratio for i, ratio in above) if above else self.target
        return rates

    def share(self) -> float:
        """Return the part of the target that the slowest task lets through."""
        wanted = self.wanted()
        shares = [
            task.rate * task.parallelism / rate
            for task, rate in zip(self.tasks, wanted, strict=True)
            if task.rate is not None and rate > 0
        ]
        return min([1.0, *shares])


def measured(job: Job, time_s: float = 100.0, window_s: float = 10.0, settled_s: float = 1e6) -> ClusterSnapshot:
    """Return what is measured while the job runs as fast as its slowest task."""
    counts = [task.parallelism for task in job.tasks]
    task = np.repeat(np.arange(len(counts)), counts)
    flows = job.wanted() * job.share()
    speeds = np.array([np.inf if t.rate is None else t.rate for t in job.tasks])
    useful = np.where(np.isinf(speeds), 0.01, flows / (speeds * counts))
    held = np.array([any(i == t and useful[j] > 0.99 for i, j, _ in job.edges) for t in range(len(counts))])
    spare = (1 - np.minimum(useful, 1)) * window_s * 1e9
    per = flows * window_s / counts
    column = {
        name: np.array([getattr(t, name) for t in job.tasks])
        for name in ("hits", "misses", "get_ms", "managed", "stall_share")
    }
    has_state = np.array([t.is_stateful for t in job.tasks])
    consumers, producers = {j for _, j, _ in job.edges}, {i for i, _, _ in job.edges}
    sends = [(e, k) for e, (i, _, _) in enumerate(job.edges) for k in np.flatnonzero(task == i)]
    edge = np.array([e for e, _ in sends], np.int32)
    producer = np.array([i for i, _, _ in job.edges], np.int32)
    ratio = np.array([r for _, _, r in job.edges])
    return ClusterSnapshot(
        number=int(time_s),
        time_s=time_s,
        window_s=window_s,
        applications=ApplicationColumns((job.name,)),
        tasks=TaskColumns(
            tuple(t.name for t in job.tasks),
            application=[0] * len(counts),
            is_source=[t not in consumers for t in range(len(counts))],
            is_sink=[t not in producers for t in range(len(counts))],
            is_stateful=has_state,
            is_keyed=has_state,
            key_groups=[t.key_groups for t in job.tasks],
            memory_level=[t.level for t in job.tasks],
            target_rate=[job.target if t not in consumers else np.nan for t in range(len(counts))],
        ),
        edges=EdgeColumns(producer, [j for _, j, _ in job.edges], [True] * len(job.edges)),
        machines=MachineColumns(("m",), [64.0]),
        instances=InstanceColumns(
            task,
            np.concatenate([np.arange(p) for p in counts]),
            np.zeros(len(task)),
            np.ones(len(task), np.bool_),
            records_in=per[task],
            busy_ns=useful[task] * window_s * 1e9,
            remote_wait_ns=np.zeros(len(task)),
            core_wait_ns=np.zeros(len(task)),
            input_wait_ns=np.where(held, 0, spare)[task],
            output_wait_ns=np.where(held, spare, 0)[task],
            settled_s=np.full(len(task), settled_s),
            cache_hits=np.where(has_state, column["hits"] * per, 0)[task],
            cache_misses=np.where(has_state, column["misses"] * per, 0)[task],
            get_ms=np.where(has_state, column["get_ms"], np.nan)[task],
            flush_stall_ns=(column["stall_share"] * window_s * 1e9)[task],
            managed_bytes=column["managed"][task],
        ),
        outputs=OutputColumns(edge, [k for _, k in sends], ratio[edge] * per[producer[edge]] if len(edge) else []),
        reuse=ReuseColumns([t for t, _, _ in job.reuse], [d for _, d, _ in job.reuse], [n for _, _, n in job.reuse]),
    )


def random_job(seed: int, tasks_most: int = 6) -> Job:
    """Return a job of one to two sources and a few tasks below; every task has an edge into it or is a source."""
    rng = np.random.default_rng(seed)
    sources, below = int(rng.integers(1, 3)), int(rng.integers(1, tasks_most))
    tasks = [Task(f"s{i}", None) for i in range(sources)]
    edges = []
    for task in range(sources, sources + below):
        tasks.append(Task(f"t{task}", float(rng.uniform(10, 1000)), int(rng.integers(1, 6))))
        for producer in rng.choice(task, size=int(rng.integers(1, min(task, 2) + 1)), replace=False):
            edges.append((int(producer), task, float(rng.uniform(0.1, 3))))
    return Job(tasks, edges, float(rng.uniform(10, 5000)))
