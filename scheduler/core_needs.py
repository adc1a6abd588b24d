"""The cores that instances need together, and whether they lie well on those that there are (DS2, eq 7).

One loop, on one core, steps all instances of a machine in turn, so each may be less than a core and all of them more.
Called by the policies that size tasks; they ask for cores only where an infinite margin does not forbid it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.plan import CoreNeed, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.forward_groups import forward_groups, groups_of_tasks
from penstock.scheduler.true_rates import NS_PER_S, TaskRates, any_by, or_nan, sum_by, task_rates

CARRIED = 0.99
"""A source that reads less than this share of its target is short."""

WAITS = 0.1
"""Instances of a core wait for each other if that takes them more than this share of the time, together."""

GAIN = 0.9
"""Instances are spread if the fullest core is to have no more than this share of what it has."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreLoads:
    """What each instance needs of a core at its task's target; NaN: not known, 0 where none can be placed."""

    snapshot: ClusterSnapshot
    each: Floats

    def of(self, application: int) -> NDArray[np.int64]:
        """Return the instances of an application that are on cores."""
        instances, tasks = self.snapshot.instances, self.snapshot.tasks
        own = tasks.application[instances.task] == application
        return np.flatnonzero(own & instances.is_running & _has_core(self.snapshot))


def core_loads(snapshot: ClusterSnapshot, needed: Floats) -> CoreLoads:
    """Return x_i b_i / u_i of each task, shared out among its instances as the rows that they took.

    x_i       instances needed, not rounded, >= 0; NaN where unknown (``needed``)
    b_i, u_i  busy time of its instances, and useful time: that and waits for remote calls, while others have the core
    """
    instances, tasks = snapshot.instances, len(snapshot.tasks)
    rows, task = len(instances), instances.task
    busy_ns, taken = or_nan(instances.busy_ns, rows), or_nan(instances.records_in, rows)
    useful_ns = busy_ns + or_nan(instances.remote_wait_ns, rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        on_core = sum_by(task, busy_ns, tasks) / sum_by(task, useful_ns, tasks)
        share = taken / sum_by(task, taken, tasks)[task]
        each = (needed * on_core)[task] * share
    # What takes nothing, and is to take nothing, needs nothing.
    rests = (sum_by(task, taken, tasks) == 0) & ~(needed > 0)
    return CoreLoads(snapshot, np.where(_has_core(snapshot) & ~rests[task], each, 0.0))


def short_applications(snapshot: ClusterSnapshot, rates: TaskRates, target_in: Floats) -> Bools:
    """Return the applications in which a source reads less than its target."""
    behind = snapshot.tasks.is_source & (rates.rate_in < CARRIED * target_in)
    return any_by(snapshot.tasks.application, behind, len(snapshot.applications))


def core_needs(loads: CoreLoads, sizes: Sequence[TaskSize], may_spread: Bools, margin: float) -> tuple[CoreNeed, ...]:
    """Return the cores needed by applications whose tasks come to ``sizes``, and by those that gain if they are spread.

    They are as many as all instances need together, and this margin, and as carry them one by one; no more than there
    are instances. Infinite: nobody asks for cores. Where a load is not known nothing is said.
    """
    if np.isinf(margin):
        return ()
    of, needs = loads.snapshot.tasks.application, []
    sized = np.zeros(len(may_spread), np.bool_)
    sized[of[[size.task for size in sizes]]] = True
    for application in np.flatnonzero(sized | may_spread).tolist():
        own = loads.of(application)
        total = (1 + margin) * float(loads.each[own].sum())
        if not total > 0:
            continue
        count = _spread_over(loads, own, total, margin) if may_spread[application] else None
        least = _count(_units_after(loads, application, sizes), total, margin) if sized[application] else 0
        if least or count is not None:
            # Those may be refused that would have done without a spread.
            needs.append(CoreNeed(application, float(max(least, count or 0)), spreads=count is not None))
    return tuple(needs)


def needed_instances(snapshot: ClusterSnapshot, target_in: Floats) -> Floats:
    """Return x_i = T_i / (lp_i / p_i) (DS2, eq 7) by task, NaN where a figure is missing."""
    rates = task_rates(snapshot)
    with np.errstate(divide="ignore", invalid="ignore"):
        return target_in / (rates.true_rate / rates.parallelism)


def spread_reason(snapshot: ClusterSnapshot, needs: Sequence[CoreNeed]) -> str:
    """Return why instances are spread, for people; "" if none are."""
    names = snapshot.applications.name
    return "; ".join(
        f"{names[need.application]}: instances wait for each other's core, and need {need.cores:.3g} cores instead of "
        f"{hosting_machines(snapshot, need.application)}"
        for need in needs
        if need.spreads
    )


def hosting_machines(snapshot: ClusterSnapshot, application: int) -> int:
    """Return on how many machines with cores instances of an application are."""
    own = snapshot.tasks.application[snapshot.instances.task] == application
    return len(np.unique(snapshot.instances.machine[own & _has_core(snapshot)]))


def busiest_share(snapshot: ClusterSnapshot, application: int) -> float:
    """Return the part of an application's busy time that its busiest machine has; NaN if it was not measured."""
    loads = CoreLoads(snapshot, or_nan(snapshot.instances.busy_ns, len(snapshot.instances)))
    own = loads.of(application)
    total = float(loads.each[own].sum())
    return _fullest(loads, own) / total if total > 0 else float("nan")


def spread_share(snapshot: ClusterSnapshot, application: int, count: int) -> float:
    """Return the same once its instances lie on so many machines; NaN if it was not measured."""
    loads = CoreLoads(snapshot, or_nan(snapshot.instances.busy_ns, len(snapshot.instances)))
    own = loads.of(application)
    total = float(loads.each[own].sum())
    return float(_levelled(_units(loads, own), count).max()) / total if total > 0 else float("nan")


def _spread_over(loads: CoreLoads, own: NDArray[np.int64], total: float, margin: float) -> int | None:
    """Return on how many cores instances are to lie, None: they are to stay.

    That is where one core has more than it can carry, instances there wait for each other, and others, or more of them,
    would clearly have less.
    """
    snapshot, units = loads.snapshot, _units(loads, own)
    if not _waits(loads, own):
        return None
    count = _count(units, total, margin)
    application = int(snapshot.tasks.application[snapshot.instances.task[own[0]]])
    count = max(count, hosting_machines(snapshot, application))
    return count if _levelled(units, count).max() <= GAIN * _fullest(loads, own) else None


def _count(units: Floats, total: float, margin: float) -> int:
    """Return the least number of cores on which none has more than it carries with a margin, but for a single unit."""
    bound, most = max(1 / (1 + margin), float(units.max())), len(units)
    # What is needed may be without end: of a task whose rows are said to take forever.
    least = max(1, int(min(np.ceil(total - 1e-9), most)))
    return next((count for count in range(least, most) if _levelled(units, count).max() <= bound), most)


def _waits(loads: CoreLoads, own: NDArray[np.int64]) -> bool:
    """Return whether a machine has more load than cores, and instances that wait for these."""
    snapshot = loads.snapshot
    machines, machine = len(snapshot.machines), snapshot.instances.machine[own]
    waited_ns = or_nan(snapshot.instances.core_wait_ns, len(snapshot.instances))[own]
    waits = np.bincount(machine, waited_ns, machines) > WAITS * snapshot.window_s * NS_PER_S
    return bool((waits & (np.bincount(machine, loads.each[own], machines) > snapshot.machines.cores)).any())


def _fullest(loads: CoreLoads, own: NDArray[np.int64]) -> float:
    machine = loads.snapshot.instances.machine[own]
    return float(np.bincount(machine, loads.each[own]).max(initial=0.0))


def _units(loads: CoreLoads, own: NDArray[np.int64]) -> Floats:
    """Return the loads of instances that are placed together, as forward edges join them."""
    return np.array([float(loads.each[group].sum()) for group in forward_groups(loads.snapshot, own.tolist())])


def _units_after(loads: CoreLoads, application: int, sizes: Sequence[TaskSize]) -> Floats:
    """Return the loads of what is placed together once tasks have their sizes; those of a task are even then."""
    snapshot = loads.snapshot
    task, tasks = snapshot.instances.task, snapshot.tasks
    count = np.bincount(task, minlength=len(tasks))
    load = np.bincount(task, loads.each, len(tasks))
    for size in sizes:
        count[size.task] = size.parallelism
    group, units = np.array(groups_of_tasks(snapshot)), list[float]()
    own = np.flatnonzero((tasks.application == application) & (load > 0))
    for head in np.unique(group[own]).tolist():
        joined = own[group[own] == head]
        units += [float((load[joined] / count[joined]).sum())] * int(count[joined].max())
    return np.array(units)


def _levelled(units: Floats, count: int) -> Floats:
    """Return what so many cores have if each unit, the largest first, goes to the one that has least."""
    levels = np.zeros(count)
    for unit in np.sort(units)[::-1].tolist():
        levels[levels.argmin()] += unit
    return levels


def _has_core(snapshot: ClusterSnapshot) -> Bools:
    return np.asarray(snapshot.machines.cores > 0)[snapshot.instances.machine]
