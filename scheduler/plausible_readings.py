"""Replacement of impossible readings by "not measured" before any policy sees them.

Counters that ran backwards, figures that are not finite or negative, times longer than the window, more CPU than a
machine has. Called by `guarded`, with the snapshot before.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Columns, Floats
from penstock.model.snapshot import GROUPS, ClusterSnapshot, MachineColumns, OutputColumns, QueryColumns, TaskColumns
from penstock.model.usable_machines import usable_machines

C = TypeVar("C", bound=Columns)

SLACK = 2.0
"""Multiple of the window, or of a machine's cores, above which a reading is impossible; readings may lag a little."""
MOST = float(2**63)
"""The largest plausible count, offset or size."""
LEAST = 1e-12
"""The smallest plausible figure above 0."""
LEAST_WINDOW_S, MOST_WINDOW_S = 1e-3, 1e7
"""A window below a millisecond yields no rates, and no window lasts for months."""
MOST_TIME_S = 1e12
MOST_LEVEL = 16
TIMES = ("busy_ns", "remote_wait_ns", "core_wait_ns", "input_wait_ns", "output_wait_ns", "flush_stall_ns")
ALLOCATIONS = frozenset({"cores", "memory_bytes", "heap_bytes", "threads"})
"""Allocations of an application, which are never 0."""
TOTALS = ("end_offset", "position")

_OPTIONAL: Mapping[str, tuple[str, ...]] = {
    group: tuple(item.name for item in fields(kind) if item.type == Floats | None) for group, kind in GROUPS.items()
}


def clock_fault(snapshot: ClusterSnapshot, before: ClusterSnapshot | None) -> str:
    """Return the fault of a snapshot's clock, on which all its figures depend; empty if there is none."""
    if not abs(snapshot.time_s) <= MOST_TIME_S:
        return f"a snapshot of second {snapshot.time_s:g} is of no time"
    if snapshot.window_s < LEAST_WINDOW_S:
        return f"a window of {snapshot.window_s:.3g} s is too short for rates"
    if not snapshot.window_s <= MOST_WINDOW_S:
        return f"a window of {snapshot.window_s:.3g} s is too long for rates"
    if before is not None and snapshot.time_s < before.time_s <= MOST_TIME_S:
        return f"the clock ran backwards by {before.time_s - snapshot.time_s:.3g} s"
    return ""


def plausible_snapshot(
    snapshot: ClusterSnapshot, before: ClusterSnapshot | None, lost_after_s: float
) -> ClusterSnapshot:
    """Return a snapshot without impossible readings; the same object if it has none.

    NaN replaces them. Where a figure is mandatory, the machine has no cores, nothing of the query may be dropped, the
    keyed task has as many key groups as instances. The CPU of a machine that is lost or full, and on which nothing
    runs, becomes not measured, so that no instance is placed there.
    """
    window_ns = snapshot.window_s * 1e9
    groups: dict[str, Any] = {}
    for group, columns in _OPTIONAL.items():
        group_columns = getattr(snapshot, group)
        changed = {}
        for name in columns:
            values = getattr(group_columns, name)
            if values is None:
                continue
            most = MOST
            if group == "instances" and name in TIMES:
                most = SLACK * window_ns
                negligible = (values > 0) & (values < LEAST)
                if negligible.any():
                    # What is left of a mean that fades away is no time at all, and no reason to know nothing.
                    values = changed[name] = np.where(negligible, 0.0, values)
            wrong = ~((values == 0) | ((values >= LEAST) & (values <= most)))
            if group == "applications" and name in ALLOCATIONS:
                wrong |= values == 0
            wrong &= ~np.isnan(values)
            if group == "partitions" and name in TOTALS:
                wrong |= _ran_back(snapshot, before, name)
            if wrong.any():
                changed[name] = np.where(wrong, np.nan, values)
        if changed:
            groups[group] = replace(group_columns, **changed)
    plausible = replace(snapshot, **groups) if groups else snapshot
    parts: dict[str, Columns] = {
        "machines": _machines(plausible, lost_after_s),
        "queries": _queries(plausible.queries),
        "tasks": _tasks(plausible),
        "outputs": _outputs(plausible.outputs),
    }
    repaired: dict[str, Any] = {name: part for name, part in parts.items() if part is not getattr(plausible, name)}
    return replace(plausible, **repaired) if repaired else plausible


def _ran_back(snapshot: ClusterSnapshot, before: ClusterSnapshot | None, name: str) -> NDArray[np.bool_]:
    """Return the partitions whose total decreased, provided that they are the same partitions."""
    no_partitions = np.zeros(len(snapshot.partitions), np.bool_)
    if before is None or len(before.partitions) != len(no_partitions):
        return no_partitions
    total_before: Floats | None = getattr(before.partitions, name)
    total: Floats | None = getattr(snapshot.partitions, name)
    if total_before is None or total is None or snapshot.tasks.name != before.tasks.name:
        return no_partitions
    reader, tasks_before = snapshot.instances.task[snapshot.partitions.instance], before.instances.task
    same = reader == tasks_before[before.partitions.instance]
    return np.asarray(same & np.isfinite(total_before) & (total < total_before), np.bool_)


def _machines(snapshot: ClusterSnapshot, lost_after_s: float) -> MachineColumns:
    cores = snapshot.machines.cores
    machines = _where(snapshot.machines, cores=(~((cores >= 0) & (cores < MOST)), 0.0))
    if machines.cpu_percent is None or not len(machines):
        return machines
    runs = np.zeros(len(machines), np.bool_)
    runs[snapshot.instances.machine[snapshot.instances.is_running]] = True
    closed = ~usable_machines(machines, lost_after_s) & ~runs
    hidden = (closed | (machines.cpu_percent > SLACK * 100.0 * machines.cores)) & ~np.isnan(machines.cpu_percent)
    return _where(machines, cpu_percent=(hidden, np.nan))


def _queries(queries: QueryColumns) -> QueryColumns:
    """Return the queries with minimums outside [0, 1] replaced by 1, and priorities that are not finite by 0."""
    is_part = (queries.minimum_accuracy >= 0) & (queries.minimum_accuracy <= 1)
    return _where(queries, minimum_accuracy=(~is_part, 1.0), priority=(~np.isfinite(queries.priority), 0.0))


def _tasks(snapshot: ClusterSnapshot) -> TaskColumns:
    tasks = snapshot.tasks
    count = np.maximum(np.bincount(snapshot.instances.task, minlength=len(tasks)), 1)
    level = np.clip(tasks.memory_level, 0, MOST_LEVEL)
    return _where(
        tasks,
        key_groups=(tasks.is_keyed & (tasks.key_groups < count), count),
        memory_level=(tasks.is_stateful & (level != tasks.memory_level), level),
    )


def _outputs(outputs: OutputColumns) -> OutputColumns:
    """Return the outputs, with drops that exceed the rows replaced by NaN."""
    if outputs.dropped is None or outputs.records_out is None:
        return outputs
    return _where(outputs, dropped=(outputs.dropped > SLACK * outputs.records_out + 1, np.nan))


def _where(columns: C, **wrong: tuple[Bools, Any]) -> C:
    """Return columns with another value where it is wrong; the columns as they are if nothing is."""
    changed = {
        name: np.where(where, value, getattr(columns, name)) for name, (where, value) in wrong.items() if where.any()
    }
    return replace(columns, **changed) if changed else columns
