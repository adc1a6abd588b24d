"""What a loop could not do while rows waited: that part of its time is not free, though nothing of it was used.

A loop that is full works for 90 to 99% of the time: between steps it looks for what is ready, and other threads have
the interpreter. And its steps, which are free as long as there is little to do, are what rows come in then. To plan
with either lets more rows in than it can take, cycle after cycle, and what waits settles above its bound. Pure;
called once a cycle before the policy, behind `segments`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.columns import Bools
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.group_sums import total, total_with_means
from penstock.shedding.source_backlog import SATURATED_PERCENT

QUEUED_S = 0.1
"""Seconds of its input that wait before a task whose machine cannot take them."""

MOST = 0.25
"""The most that is not free, of each core: beyond that rows wait for something else."""

_LEARNED = 0.5
"""The weight of a window in what a machine cannot do; the first counts whole."""

_KEPT_WHEN_FULL, _KEPT_IF_ALL_FITS, _KEPT_WITH_ROOM = 0.99, 0.8, 0.5
"""The share that remains after a window in which nothing waited, of a machine with nothing left and of another.

Of one with nothing left less remains if without it nothing need be shed: a loop that has time takes more and smaller
steps, and so is full, too.
"""


@dataclass(frozen=True, slots=True)
class FullLoops:
    """Percent of a core that each machine, by name, could not use; ``waited``: machines before which rows waited."""

    unusable: Mapping[str, float] = field(default_factory=dict)
    waited: frozenset[str] = frozenset()


def learned(
    before: FullLoops,
    counted: ClusterSnapshot,
    prepared: ClusterSnapshot,
    all_fits: Callable[[], bool],
    near: Collection[str] = (),
) -> FullLoops:
    """Return what machines cannot use after a window.

    ``counted``: the snapshot whose backlogs are those that count, and whose load is what loops worked; ``prepared``:
    the same with the load that the policy is to see. What ``prepared`` has as free of a machine that was full, and
    before which rows waited at both ends of the window, is none. ``all_fits``: whether nothing need be shed if all that
    it has as free is; asked only where that matters. ``near``: source tasks before which rows wait, too, though not
    beyond their bounds: a loop that has time left works them off.
    """
    machines = counted.machines
    if machines.cpu_percent is None or prepared.machines.cpu_percent is None:
        return before
    waits, all_cores = _rows_wait(counted, near), 100.0 * machines.cores
    is_full = machines.cpu_percent >= SATURATED_PERCENT * machines.cores
    free = np.clip(all_cores - prepared.machines.cpu_percent, 0.0, MOST * all_cores)
    unusable: dict[str, float] = {}
    for row, name in enumerate(machines.name):
        known = before.unusable.get(name)
        if is_full[row] and waits[row] and name in before.waited:
            known = float(free[row]) if known is None else known + _LEARNED * (float(free[row]) - known)
        elif known is not None and not waits[row]:
            known *= _kept(bool(is_full[row]), all_fits)
        if known is not None and known >= 0.1:
            unusable[name] = known
    return FullLoops(unusable, frozenset(name for row, name in enumerate(machines.name) if waits[row]))


def _kept(is_full: bool, all_fits: Callable[[], bool]) -> float:
    if not is_full:
        return _KEPT_WITH_ROOM
    return _KEPT_IF_ALL_FITS if all_fits() else _KEPT_WHEN_FULL


def with_full_loops(prepared: ClusterSnapshot, full: FullLoops) -> ClusterSnapshot:
    """Return a snapshot in which what machines cannot use is load of theirs."""
    machines = prepared.machines
    if machines.cpu_percent is None or not full.unusable:
        return prepared
    unusable = np.array([full.unusable.get(name, 0.0) for name in machines.name])
    percent = np.minimum(machines.cpu_percent + unusable, np.maximum(machines.cpu_percent, 100.0 * machines.cores))
    return replace(prepared, machines=replace(machines, cpu_percent=percent))


def _rows_wait(counted: ClusterSnapshot, near: Collection[str]) -> Bools:
    """Return the machines with a source whose backlog counts or is near, or with a task before which rows wait."""
    partitions, instances = counted.partitions, counted.instances
    tasks, machines = len(counted.tasks), len(counted.machines)
    waits = np.array([name in near for name in counted.tasks.name], np.bool_)
    if partitions.end_offset is not None and partitions.position is not None and len(partitions):
        lag = np.maximum(partitions.end_offset - partitions.position, 0.0)
        # What counts was made of shares, which round.
        waits |= np.nan_to_num(total_with_means(lag, instances.task[partitions.instance], tasks)) > 0.5
    runs = instances.is_running
    if instances.queue_rows is not None and instances.records_in is not None:
        queued = total(np.nan_to_num(instances.queue_rows[runs]), instances.task[runs], tasks)
        taken = total(np.nan_to_num(instances.records_in[runs]), instances.task[runs], tasks) / counted.window_s
        waits |= (queued > QUEUED_S * taken) & ~counted.tasks.is_source
    on = total(waits[instances.task[runs]].astype(np.float64), instances.machine[runs], machines)
    return np.asarray(on > 0)
