"""Snapshots of one application in a row of tasks, for the tests of Flink-ER: what each instance can take, and takes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.model.snapshot import (
    ApplicationColumns,
    BucketColumns,
    ClusterSnapshot,
    EdgeColumns,
    InstanceColumns,
    MachineColumns,
    OutputColumns,
    PartitionColumns,
    TaskColumns,
)

WINDOW_S = 5.0


@dataclass(frozen=True)
class Stage:
    """A task: rows a second that each instance can take, rows out for a row in, how rows find an instance.

    ``shares``: of a keyed task, or of a free one so far; None: even.
    """

    name: str
    rates: Sequence[float]
    gain: float = 1.0
    free: bool = True
    shares: Sequence[float] | None = None
    buckets: Sequence[tuple[int, float]] = field(default=())
    """Of a keyed task: owner and share of the rows of each bucket."""


def snapshot(
    offered: float, stages: Sequence[Stage], *, lag: float = 1e6, consumed: float | None = None, number: int = 1
) -> ClusterSnapshot:
    """Return the state of a job that consumes what its narrowest instance lets it, out of ``offered`` rows a second."""
    entering, gains = [], 1.0
    for stage in stages:
        entering.append(gains)
        gains *= stage.gain
    shares = [np.asarray(stage.shares or [1 / len(stage.rates)] * len(stage.rates)) for stage in stages]
    narrow = min(
        rate / (gain * share)
        for stage, gain, own in zip(stages, entering, shares, strict=True)
        for rate, share in zip(stage.rates, own, strict=True)
        if share > 0
    )
    rate = min(offered, narrow) if consumed is None else consumed
    task, index, records, busy = [], [], [], []
    for place, (stage, gain, own) in enumerate(zip(stages, entering, shares, strict=True)):
        for instance, (each, share) in enumerate(zip(stage.rates, own, strict=True)):
            rows = rate * gain * share * WINDOW_S
            task.append(place)
            index.append(instance)
            records.append(rows)
            busy.append(rows / each * 1e9)
    count, tasks = len(task), len(stages)
    first = [task.index(place) for place in range(tasks)]
    keyed = np.array([bool(stage.buckets) for stage in stages])
    buckets: dict[str, list[Any]] = {"task": [], "bucket": [], "instance": [], "rows": []}
    for place, stage in enumerate(stages):
        for bucket, (owner, share) in enumerate(stage.buckets):
            buckets["task"].append(place)
            buckets["bucket"].append(bucket)
            buckets["instance"].append(first[place] + owner)
            buckets["rows"].append(rate * entering[place] * share * WINDOW_S)
    edges = range(tasks - 1)
    zeros = np.zeros(count)
    return ClusterSnapshot(
        number,
        number * WINDOW_S,
        WINDOW_S,
        applications=ApplicationColumns(("job",)),
        tasks=TaskColumns(
            tuple(stage.name for stage in stages),
            np.zeros(tasks),
            np.arange(tasks) == 0,
            np.arange(tasks) == tasks - 1,
            keyed,
            keyed,
            np.where(keyed, 128, 1),
            np.zeros(tasks),
        ),
        edges=EdgeColumns(np.arange(tasks - 1), np.arange(1, tasks), np.array([s.free for s in stages[1:]], np.bool_)),
        machines=MachineColumns(("m",), np.array([64.0])),
        instances=InstanceColumns(
            np.array(task),
            np.array(index),
            zeros,
            np.ones(count),
            records_in=np.array(records),
            busy_ns=np.array(busy),
            remote_wait_ns=zeros,
            core_wait_ns=zeros,
            latency_ms=np.full(count, 900.0),
        ),
        outputs=OutputColumns(
            np.arange(tasks - 1),
            np.array([first[edge] for edge in edges]),
            records_out=np.array([rate * entering[edge + 1] * WINDOW_S for edge in edges]),
        ),
        partitions=PartitionColumns(
            np.array([0]),
            appended=np.array([offered * WINDOW_S]),
            consumed=np.array([rate * WINDOW_S]),
            end_offset=np.array([lag]),
            position=np.array([0.0]),
        ),
        buckets=BucketColumns(
            np.array(buckets["task"]),
            np.array(buckets["bucket"]),
            np.array(buckets["instance"]),
            records_in=np.array(buckets["rows"]),
        ),
    )
