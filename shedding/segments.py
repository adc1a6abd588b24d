"""The segments of a chain between its branches, as tasks of their own in what the controller reads.

Operators that hand rows on by calls are one task, whose time is measured as a whole. Where queries of different
contracts part inside it each side can be shed by itself, so each is a task to the policy: its time is that of the fit
(`cost_fit`), its rows are those of the source and the rates in force. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from penstock.model.columns import Columns, Floats
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.task_levels import Indexes
from penstock.shedding.cost_fit import CostFit, CostFits, with_readings
from penstock.shedding.instance_identity import InstanceNames, names_of

Rows = TypeVar("Rows", bound=Columns)


@dataclass(frozen=True, slots=True, eq=False)
class KnownFits:
    """The fits of instances that have as many segments."""

    who: InstanceNames
    fits: CostFits

    def of(self, who: InstanceNames) -> CostFits:
        """Return the fits of these instances, in their order."""
        return self.fits.at(who.places_in(self.who))


Fits = Mapping[int, KnownFits]
"""By the number of segments."""

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
    fits: dict[int, KnownFits] = {}
    if instances.cpu_ns is None or instances.records_in is None:
        return fits
    percent = instances.cpu_ns / snapshot.window_s / 1e7
    rate = instances.records_in / snapshot.window_s
    steps = _steps_per_s(snapshot)
    shares = {task: _rates(1.0, task, segments) for task in {segment.task for segment in segments}}
    for count, rows in _by_segments(snapshot, segments):
        rates = rate[rows, np.newaxis]
        if count > 1:
            rates = rates * np.stack([shares[task] for task in instances.task[rows].tolist()])
        who = names_of(snapshot, rows)
        known = before[count].of(who) if count in before else CostFits.none(len(rows), count)
        fits[count] = KnownFits(who, with_readings(known, rates, percent[rows], steps[rows]))
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
    steps = _steps_per_s(snapshot)
    idle = np.zeros(len(snapshot.machines))
    by_segment: list[tuple[int, int, float, float, float]] = []
    for count, rows in _by_segments(snapshot, segments):
        if count not in fits:
            continue
        known = fits[count].of(names_of(snapshot, rows))
        places = np.flatnonzero(known.known & np.isfinite(cpu_ns[rows]))
        own = rows[places]
        of_step = known.cost[places, 1] / known.unit_steps[places]
        of_steps = of_step * steps[own]
        cpu_ns[own] = np.maximum(cpu_ns[own] - (known.cost[places, 0] + of_steps) * window_s * 1e7, 0.0)
        unused = np.maximum(of_steps - of_step * LEAST_STEPS_PER_S, 0.0)
        idle += np.bincount(instances.machine[own], unused, len(idle))
        if count == 1:
            continue
        for place, row in zip(places.tolist(), own.tolist(), strict=True):
            by_segment += _parted(snapshot, segments, known.row(place), row, cpu_ns)
    machines = snapshot.machines
    if machines.cpu_percent is not None:
        machines = replace(machines, cpu_percent=np.maximum(machines.cpu_percent - idle, 0.0))
    changed = replace(snapshot, instances=replace(instances, cpu_ns=cpu_ns), machines=machines)
    return _appended(changed, segments, sorted(by_segment, key=itemgetter(1))) if by_segment else changed


def _parted(
    snapshot: ClusterSnapshot, segments: Sequence[Segment], fit: CostFit, row: int, cpu_ns: Floats
) -> Iterator[tuple[int, int, float, float, float]]:
    """Leave an instance the time of its first segment; yield of each other its number, row, time, and rows in and out.

    Rows are those that it took, and those that arrived before it.
    """
    instances, window_s = snapshot.instances, snapshot.window_s
    assert instances.records_in is not None
    task = int(instances.task[row])
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
        yield number, row, float(parts[place] * scale), float(rates[place] * window_s), float(arrives * window_s)


def _by_segments(snapshot: ClusterSnapshot, segments: Sequence[Segment]) -> Iterator[tuple[int, Indexes]]:
    """Yield the running instances by how many segments they have, the source's own included."""
    counts = np.ones(len(snapshot.tasks), np.int64)
    np.add.at(counts, [segment.task for segment in segments], 1)
    running = np.flatnonzero(snapshot.instances.is_running)
    of_row = counts[snapshot.instances.task[running]]
    for count in np.unique(of_row).tolist():
        yield count, running[of_row == count]


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
