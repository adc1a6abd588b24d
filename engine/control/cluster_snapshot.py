"""The metric contract filled from a job that runs: two readings of its counters make a snapshot.

What is measured today: rows, times and CPU of instances, how long each has run and how long rows are there, rows of
edges and of key groups, what waits, accesses to state and how far back it was used, its sizes, those of key groups too,
and budgets, of sources what their readers know of the logs, calls to the outside. None, as nobody measures it yet:
drops behind sources, network, how long results take from a source to a sink, writes of state and its slowest reads;
`lag_maxima` adds what waits at the end of a cycle, `application_use` what the job has and uses as a whole. Whoever runs
the job says what its machines measured. Of an instance that was built anew between the readings no counts are known.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np

from penstock.engine.control.counter_window import CounterWindow
from penstock.engine.control.reading import Reading
from penstock.engine.control.task_counts import risen
from penstock.engine.control.task_layout import EdgeEnds, Numbers
from penstock.model.columns import Floats, Ints
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners
from penstock.model.memory_levels import NO_LEVEL, levels_of
from penstock.model.reuse_distances import REUSE_BOUNDS
from penstock.model.snapshot import (
    ApplicationColumns,
    BucketColumns,
    ClusterSnapshot,
    InputColumns,
    InstanceColumns,
    MachineColumns,
    OutputColumns,
    PartitionColumns,
    ReuseColumns,
    ServiceColumns,
    TaskColumns,
)

Counted = tuple[Numbers, Floats]
"""Rows of tasks, and what was counted of the cells of each."""

NO_OWNERS: Mapping[TaskId, Owners] = MappingProxyType({})


def cluster_snapshot(
    name: str,
    number: int,
    before: Reading | None,
    after: Reading,
    machines: MachineColumns,
    here: str | Sequence[str] | Ints | None = None,
    owners: Mapping[TaskId, Owners] = NO_OWNERS,
    *,
    as_sent: bool = False,
) -> ClusterSnapshot:
    """Return what a job counted between two readings (None: since it started).

    ``here``: which of the machines it runs on, None where there is one; or the machine of each instance in task order,
    empty for one that waits to be placed; or the row of each one's machine, -1. One whose input has ended keeps its
    place then: it waits for nothing. ``owners`` are those of the key groups of tasks, as far as it is known. Rows into
    edges are those before shedders, ``as_sent``: those behind them, for who sheds and knows what is dropped.

    Raises:
        ValueError: the later reading is not later, or it is not said on which of several machines the job runs.
    """
    where: Ints | None = None
    if isinstance(here, np.ndarray):
        where = here
    elif here is None and len(machines) != 1:
        raise ValueError(f"say on which machine the job runs: {', '.join(machines.name) or 'there is none'}")
    elif here is not None:
        rows = {"": -1} | {name: row for row, name in enumerate(machines.name)}
        for place in {here} if isinstance(here, str) else here:
            if place not in rows:
                raise ValueError(f"there is no machine {place!r}; choose from {', '.join(machines.name)}")
        where = None if isinstance(here, str) else np.array([rows[place] for place in here], np.int32)
    since, layout = 0 if before is None else before.time_ns, after.layout
    window = CounterWindow(before, after, layout)
    sent = _exchanged(window, layout.senders, lambda reading: reading.sent)
    return ClusterSnapshot(
        number,
        after.time_ns / 1e9,
        (after.time_ns - since) / 1e9,
        applications=ApplicationColumns((name,)),
        tasks=_tasks(after),
        edges=layout.edge_columns,
        queries=layout.query_columns,
        machines=machines,
        instances=_instances(window, where, machines.name.index(here) if isinstance(here, str) else 0),
        outputs=OutputColumns(*sent) if as_sent else _with_drops(window, *sent),
        inputs=InputColumns(*_exchanged(window, layout.receivers, lambda reading: reading.offered)),
        partitions=_partitions(window),
        buckets=_buckets(window, owners),
        reuse=_reuse(before, after),
        services=_services(window),
    )


def _tasks(reading: Reading) -> TaskColumns:
    layout = reading.layout
    # Level 0 is what an instance has as its program says: who chooses levels doubles that.
    levels = levels_of(reading.state_budget[layout.first], reading.first_budget[layout.first])
    return TaskColumns(
        layout.task_names,
        application=np.zeros(len(layout.first), np.int32),
        is_source=layout.is_source,
        is_sink=layout.is_sink,
        is_stateful=layout.keeps_state,
        is_keyed=layout.is_keyed,
        key_groups=reading.key_groups.astype(np.int32),
        memory_level=np.where(layout.keeps_state, levels, np.int32(NO_LEVEL)),
    )


def _instances(window: CounterWindow, where: Ints | None, machine: int) -> InstanceColumns:
    """Return the instances: each on the machine ``where`` says, -1: it waits; None: all on one machine, as read."""
    after, spent, cpu_ns = window.after, window.since(lambda reading: reading.spent_ns), window.cpu_ns()
    misses, waited_ns = window.since(lambda reading: reading.misses), window.since(lambda reading: reading.waited_ns)
    hits, task = window.since(lambda reading: reading.hits), window.layout.task
    accesses = hits + misses
    age_s = after.age_ns / 1e9
    if where is not None:
        # One that waits begins anew, wherever it ran.
        age_s = np.where(where < 0, np.nan, age_s)
    return InstanceColumns(
        task=task.astype(np.int32),
        number=window.layout.number,
        machine=np.full(len(task), machine, np.int32) if where is None else np.maximum(where, 0),
        is_running=after.is_running if where is None else where >= 0,
        records_in=window.since(lambda reading: reading.records_in),
        busy_ns=spent[:, 0],
        remote_wait_ns=spent[:, 1],
        core_wait_ns=spent[:, 2],
        input_wait_ns=spent[:, 3],
        output_wait_ns=spent[:, 4],
        cpu_ns=_unless_missing(cpu_ns),
        steps=_unless_missing(window.since(lambda reading: reading.steps)),
        queue_rows=after.queue_rows,
        latency_ms=_unless_missing(_latency_ms(window)),
        age_s=age_s,
        settled_s=age_s,
        cache_hits=hits,
        cache_misses=misses,
        get_ms=_unless_missing(np.divide(waited_ns / 1e6, accesses, np.full(len(task), np.nan), where=accesses > 0)),
        flush_stall_ns=_unless_missing(window.since(lambda reading: reading.stalled_ns)),
        state_bytes=after.state_bytes,
        managed_bytes=_unless_missing(after.state_budget),
    )


def _latency_ms(window: CounterWindow) -> Floats:
    """Return how long a row waits and is worked on by Little's law; where more wait than came, how long those have.

    NaN: no row came, or it is not known.
    """
    row_ns, taken = window.since(lambda reading: reading.row_ns), window.since(lambda reading: reading.records_in)
    rows = np.fmax(taken, window.after.queue_rows)
    latency_ms: Floats = np.divide(row_ns / 1e6, rows, np.full(len(rows), np.nan), where=rows > 0)
    return latency_ms


def _partitions(window: CounterWindow) -> PartitionColumns:
    """Return the logs of sources: of one whose end nobody knows, it is what was taken and what is known to wait."""
    logs = window.after.logs
    end = np.where(np.isnan(logs.appended), logs.consumed + logs.behind, logs.appended)
    return PartitionColumns(
        logs.instance.astype(np.int32),
        appended=_unless_missing(window.by_partition(lambda each: each.appended)),
        consumed=_unless_missing(window.by_partition(lambda each: each.consumed)),
        end_offset=_unless_missing(end),
        position=_unless_missing(end - logs.behind),
    )


def _services(window: CounterWindow) -> ServiceColumns:
    """Return the services that tasks call, one for each task, by its name; latency only where a call is over."""
    if np.isnan(window.after.calls[:, 0]).all():
        return ServiceColumns.none()
    counted = window.since(lambda reading: reading.calls)
    task, tasks = window.layout.task, len(window.layout.task_names)
    calling = np.flatnonzero(np.bincount(task, ~np.isnan(window.after.calls[:, 0]), tasks) > 0)
    if not len(calling):
        return ServiceColumns.none()
    calls, waited_ns, errors = (
        np.bincount(task, np.nan_to_num(counted[:, column]), tasks)[calling].astype(np.float64) for column in range(3)
    )
    latency_ms = np.divide(waited_ns / 1e6, calls, np.full(len(calling), np.nan), where=calls > 0)
    return ServiceColumns(
        tuple(window.layout.task_names[row] for row in calling.tolist()),
        np.zeros(len(calling), np.int32),
        latency_ms=latency_ms,
        calls=calls,
        errors=errors,
    )


def _buckets(window: CounterWindow, owners: Mapping[TaskId, Owners]) -> BucketColumns:
    """Return the key groups of tasks whose owners can change while they run, with their rows (about), and state."""
    layout, before = window.layout, window.before
    columns: list[tuple[Ints, Ints, Ints, Floats, Floats]] = []
    then = None if before is None else before.group_rows
    counted: dict[int, tuple[Counted, Counted]] = {}
    for row in layout.movable:
        table = owners.get(layout.graph.tasks[row].id)
        if table is None or not np.isin(table, numbers := layout.graph.tasks[row].numbers).all():
            continue
        if len(table) not in counted:
            came_to = risen(then, window.after.group_rows, len(table))
            counted[len(table)] = came_to, risen(None, window.after.group_bytes, len(table))
        (tasks, rows), (sized, sizes) = counted[len(table)]
        if row not in tasks:
            continue
        held = sizes[np.searchsorted(sized, row)] if row in sized else np.full(len(table), np.nan)
        groups = np.arange(len(table), dtype=np.int32)
        instance = (layout.first[row] + np.searchsorted(numbers, table)).astype(np.int32)
        came = rows[np.searchsorted(tasks, row)]
        columns.append((np.full(len(table), row, np.int32), groups, instance, came, held))
    if not columns:
        return BucketColumns.none()
    task, group, instance, came, held = (np.concatenate(each) for each in zip(*columns, strict=True))
    return BucketColumns(
        task.astype(np.int32), group.astype(np.int32), instance.astype(np.int32), came, _unless_missing(held)
    )


def _reuse(before: Reading | None, after: Reading) -> ReuseColumns:
    """Return how far back state was used in the window."""
    tasks, counts = risen(None if before is None else before.reuse, after.reuse, len(REUSE_BOUNDS))
    task, bound = np.nonzero(counts)
    return ReuseColumns(tasks[task].astype(np.int32), REUSE_BOUNDS[bound], counts[task, bound])


def _exchanged(window: CounterWindow, ends: EdgeEnds, counts: Callable[[Reading], Floats]) -> tuple[Ints, Ints, Floats]:
    """Return rows of channels by edge and instance at one end of it: the row of each, and the sum over the others."""
    return ends.edge, ends.instance, window.by_edge(counts, ends)


def _with_drops(window: CounterWindow, edge: Ints, instance: Ints, sent: Floats) -> OutputColumns:
    """Return what instances sent, with what shedders dropped: branches in chains before, and consumers by keys behind.

    Operators between a branch and the edge are taken to make as many rows of what was dropped as of what was kept.
    """
    layout, dropped = window.layout, np.zeros(len(sent))
    if window.after.branch_shed is not None:
        shed, kept = (
            window.by_edge(partial(_of_branches, column=column), layout.senders)
            for column in ("branch_shed", "branch_kept")
        )
        dropped = np.divide(sent * shed, kept, np.where(kept > 0, 0.0, shed), where=kept > 0)
    before = sent + dropped
    if (window.after.shed > 0).any():
        counts = (window.since(lambda reading: reading.shed), window.since(lambda reading: reading.records_in))
        tasks = len(layout.task_names)
        lost, taken = (np.bincount(layout.task, np.nan_to_num(each), tasks) for each in counts)
        share = np.divide(lost, lost + taken, np.zeros(tasks), where=~layout.is_source & (lost > 0))
        dropped = dropped + sent * share[layout.edge_columns.consumer[edge]]
    return OutputColumns(edge, instance, before, dropped)


def _of_branches(reading: Reading, column: str) -> Floats:
    counted: Floats | None = getattr(reading, column)
    return np.zeros(len(reading.sent)) if counted is None else counted


def _unless_missing(values: Floats) -> Floats | None:
    """Return a column, None if nobody has measured any of it."""
    return None if np.isnan(values).all() else values
