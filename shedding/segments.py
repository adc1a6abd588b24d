"""The segments of a chain between its branches, as tasks of their own in what the controller reads.

Operators that hand rows on by calls are one task, whose time is measured as a whole. Where queries of different
contracts part inside it each side can be shed by itself, so each is a task to the policy: its time is that of the fit
(`cost_fit`), its rows are those of the source and the rates in force. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from penstock.model.columns import Columns, Floats
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.cost_fit import CostFit, with_readings

Rows = TypeVar("Rows", bound=Columns)

InstanceName = tuple[str, int]
"""A task and the number of the instance."""

Fits = Mapping[InstanceName, CostFit]

LEAST_STEPS_PER_S = 4.0
"""Steps a second of an instance whose rows wait for as long as they may: fewer would let them wait for longer."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The operators behind one branch, in the chain of a source.

    ``task`` is the source's, ``above`` the segment that the branch leaves, -1: the source's own; both are rows, of the
    snapshot and of the list of segments, where parents come first. ``queries`` end in it, ``edges`` leave it. ``share``
    of the source's records that goes on to it now, in [0, 1].
    """

    name: str
    task: int
    above: int
    queries: tuple[int, ...]
    edges: tuple[int, ...]
    share: float


def fitted(snapshot: ClusterSnapshot, segments: Sequence[Segment], before: Fits) -> Fits:
    """Return the fits after the window: of each running instance its time by the rows that it took, by segment."""
    instances = snapshot.instances
    fits: dict[InstanceName, CostFit] = {}
    if instances.cpu_ns is None or instances.records_in is None:
        return fits
    percent = instances.cpu_ns / snapshot.window_s / 1e7
    rate = instances.records_in / snapshot.window_s
    steps = _steps_per_s(snapshot)
    parted = {segment.task for segment in segments}
    shares = {task: _rates(1.0, task, segments) for task in parted}
    counts = np.array([len(shares[task]) if task in shares else 1 for task in range(len(snapshot.tasks))])
    running = np.flatnonzero(instances.is_running)
    for count in np.unique(counts[instances.task[running]]).tolist():
        # Instances of as many segments are fitted at once.
        rows = running[counts[instances.task[running]] == count]
        numbers = instances.number[rows].tolist()
        names = [(snapshot.tasks.name[task], n) for task, n in zip(instances.task[rows].tolist(), numbers, strict=True)]
        rates = rate[rows, np.newaxis]
        if count > 1:
            rates = rates * np.stack([shares[task] for task in instances.task[rows].tolist()])
        after = with_readings([before.get(name) for name in names], rates, percent[rows], steps[rows])
        fits |= {name: fit for name, fit in zip(names, after, strict=True) if fit is not None}
    return fits


def with_segments(snapshot: ClusterSnapshot, segments: Sequence[Segment], fits: Fits) -> ClusterSnapshot:
    """Return a snapshot whose segments are tasks; what is fixed is load of the machine, and no instance's.

    Nor is what steps take. Of that only so much is load as they take when rows wait: else a loop takes fewer rows in
    more steps because it has the time.
    """
    instances = snapshot.instances
    if instances.cpu_ns is None or instances.records_in is None:
        return snapshot
    cpu_ns, window_s = instances.cpu_ns.copy(), snapshot.window_s
    rows = np.flatnonzero(instances.is_running & np.isfinite(cpu_ns))
    owners = zip(instances.task[rows].tolist(), instances.number[rows].tolist(), strict=True)
    known = [fits.get((snapshot.tasks.name[task], number)) for task, number in owners]
    rows, of_row = rows[[fit is not None for fit in known]], [fit for fit in known if fit is not None]
    fixed = np.array([fit.cost[0] for fit in of_row], np.float64)
    of_step = np.array([fit.cost[1] / fit.unit_steps for fit in of_row], np.float64)
    of_steps = of_step * _steps_per_s(snapshot)[rows]
    cpu_ns[rows] = np.maximum(cpu_ns[rows] - (fixed + of_steps) * window_s * 1e7, 0.0)
    unused = np.maximum(of_steps - of_step * LEAST_STEPS_PER_S, 0.0)
    idle = np.bincount(instances.machine[rows], unused, len(snapshot.machines))
    by_segment: list[tuple[int, int, float, float, float]] = []
    parted = {segment.task for segment in segments}
    for row, fit in zip(rows.tolist(), of_row, strict=True):
        task = int(instances.task[row])
        if task not in parted:
            continue
        rates = _rates(float(instances.records_in[row]) / window_s, task, segments)
        parts = fit.parts(rates)
        whole = float(parts.sum())
        scale = float(cpu_ns[row]) / whole if whole > 0 else 0.0
        if whole > 0:
            cpu_ns[row] = parts[0] * scale
        own = [number for number, segment in enumerate(segments) if segment.task == task]
        for place, number in enumerate(own, start=1):
            above = segments[number].above
            arrives = rates[0] if above < 0 else rates[1 + own.index(above)]
            took = float(rates[place] * window_s)
            by_segment.append((number, row, float(parts[place] * scale), took, float(arrives * window_s)))
    machines = snapshot.machines
    if machines.cpu_percent is not None:
        machines = replace(machines, cpu_percent=np.maximum(machines.cpu_percent - idle, 0.0))
    changed = replace(snapshot, instances=replace(instances, cpu_ns=cpu_ns), machines=machines)
    return _appended(changed, segments, by_segment) if by_segment else changed


def _steps_per_s(snapshot: ClusterSnapshot) -> Floats:
    """Return the steps of each instance, 0 where they are not counted."""
    instances = snapshot.instances
    if instances.steps is None:
        return np.zeros(len(instances))
    return np.nan_to_num(instances.steps) / snapshot.window_s


def _rates(rate: float, task: int, segments: Sequence[Segment]) -> Floats:
    """Return rows/s of a task that took ``rate``, and of its segments."""
    return np.array([rate, *(rate * segment.share for segment in segments if segment.task == task)])


def _appended(
    snapshot: ClusterSnapshot, segments: Sequence[Segment], rows: Sequence[tuple[int, int, float, float, float]]
) -> ClusterSnapshot:
    tasks, edges, instances = snapshot.tasks, snapshot.edges, snapshot.instances
    first, first_edge, first_instance = len(tasks), len(edges), len(instances)
    task_of = [first + number for number in range(len(segments))]
    above = [segment.task if segment.above < 0 else first + segment.above for segment in segments]
    producer, query_task = edges.producer.copy(), snapshot.queries.task.copy()
    for number, segment in enumerate(segments):
        producer[list(segment.edges)] = first + number
        query_task[list(segment.queries)] = first + number
    whose = [row for _, row, *_ in rows]
    numbers = [number for number, *_ in rows]
    took, arrived = [each[3] for each in rows], [each[4] for each in rows]
    own = [first_instance + at for at in range(len(rows))]
    return replace(
        snapshot,
        tasks=_with_rows(
            tasks,
            len(segments),
            name=tuple(segment.name for segment in segments),
            application=[int(tasks.application[segment.task]) for segment in segments],
            key_groups=[1] * len(segments),
        ),
        edges=_with_rows(
            edges.__class__(**{**_columns(edges), "producer": producer}),
            len(segments),
            producer=above,
            consumer=task_of,
        ),
        queries=replace(snapshot.queries, task=query_task),
        instances=_with_rows(
            instances,
            len(rows),
            task=[first + number for number in numbers],
            number=instances.number[whose],
            machine=instances.machine[whose],
            is_running=[True] * len(rows),
            records_in=took,
            cpu_ns=[each[2] for each in rows],
            age_s=None if instances.age_s is None else instances.age_s[whose],
        ),
        outputs=_with_rows(
            snapshot.outputs,
            len(rows),
            edge=[first_edge + number for number in numbers],
            instance=whose,
            records_out=arrived,
            dropped=[a - t for a, t in zip(arrived, took, strict=True)],
        ),
        inputs=_with_rows(
            snapshot.inputs,
            len(rows),
            edge=[first_edge + number for number in numbers],
            instance=own,
            offered=arrived,
        ),
    )


def _columns(columns: Columns) -> dict[str, Any]:
    return {field.name: getattr(columns, field.name) for field in fields(columns)}


def _with_rows(columns: Rows, count: int, **values: Any) -> Rows:
    """Return columns with more rows, of which only these values were measured."""
    longer: dict[str, Any] = {}
    for name, before in _columns(columns).items():
        added = values.get(name)
        if before is None:
            longer[name] = added if added is not None and not len(columns) else None
        elif isinstance(before, tuple):
            longer[name] = (*before, *(added or ("",) * count))
        else:
            blank = np.full(count, np.nan if before.dtype.kind == "f" else 0, before.dtype)
            longer[name] = np.concatenate([before, blank if added is None else np.asarray(added, before.dtype)])
    return columns.__class__(**longer)
