"""Limits on whole applications: cores, memory, heap and threads. Called by `plan_limits`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from penstock.model.columns import Floats
from penstock.model.plan import ApplicationSize
from penstock.scheduler.limits import OF_ALL, PlanBounds
from penstock.scheduler.true_rates import or_nan

_RESOURCES = ("cores", "heap_bytes", "memory_bytes", "threads")

SAME = 1e-6
"""Two allocations are the same if they differ by no more than this part."""


def limited_applications(requested: Sequence[ApplicationSize], bounds: PlanBounds) -> tuple[ApplicationSize, ...]:
    """Return the sizes within the quotas, which count the present allocations of all other applications.

    Where no quota was given, what the machines have is one: a core of these is nobody's who is not seen on them, while
    their memory may be that of a host, of which others have a part.
    """
    applications, machines = bounds.snapshot.applications, bounds.snapshot.machines
    count = len(applications)
    cores, memory = or_nan(applications.cores, count).copy(), or_nan(applications.memory_bytes, count).copy()
    if bounds.limits.most_cores is None:
        cores[bounds.is_elsewhere] = 0.0
    most_cores = bounds.limits.cores_quota(machines, bounds.usable)
    most_memory = bounds.limits.memory_quota(machines, bounds.usable)
    limited: list[ApplicationSize] = []
    for size in _one_of_each(requested, bounds):
        row = size.application
        if not 0 <= row < count:
            bounds.refuse(f"application {row}", "cores", "there is no such application")
            continue
        if bounds.is_elsewhere[row]:
            bounds.refuse(applications.name[row], "cores", "it is another job's")
            continue
        granted = replace(
            size,
            cores=_granted_share(size.cores, cores, row, 0.0, most_cores, "cores", bounds),
            memory_bytes=_granted_share(
                size.memory_bytes, memory, row, bounds.limits.least_memory_bytes, most_memory, "memory", bounds
            ),
            threads=_granted_threads(size, bounds),
        )
        # Of one whose memory is not known the heap is bounded by what is left.
        most_heap = memory[row] if np.isfinite(memory[row]) else max(most_memory - float(np.nansum(memory)), 0.0)
        granted = replace(granted, heap_bytes=_granted_heap(granted, most_heap, bounds))
        if granted != ApplicationSize(row):
            limited.append(granted)
    return tuple(limited)


def _one_of_each(requested: Sequence[ApplicationSize], bounds: PlanBounds) -> Iterable[ApplicationSize]:
    """Return one size of each application, of all that is asked for it; what is asked for twice is as at first."""
    sizes: dict[int, ApplicationSize] = {}
    for size in requested:
        row = size.application
        before = sizes.setdefault(row, size)
        if before is size:
            continue
        asked = {what: getattr(size, what) for what in _RESOURCES if getattr(size, what) is not None}
        for what in [what for what in asked if getattr(before, what) is not None]:
            bounds.refuse(f"application {row}", what, "it is sized twice", float(asked.pop(what)))
        sizes[row] = replace(before, **asked)
    return sizes.values()


def _granted_share(
    requested: float | None, allocated: Floats, row: int, least: float, most: float, what: str, bounds: PlanBounds
) -> float | None:
    """Return an application's share of a quota and record it in ``allocated``; None: unchanged."""
    if requested is None:
        return None
    name, now = bounds.snapshot.applications.name[row], allocated[row]
    if not (np.isfinite(requested) and requested > 0):
        bounds.refuse(name, what, "it is a finite figure above 0", float(requested))
        return None
    others = float(np.nansum(allocated)) - float(np.nan_to_num(now))
    room = max(most - others, float(np.nan_to_num(now)))
    granted = max(min(requested, room), least)
    if granted > room or granted == 0:
        why = "the floor does not fit the quota" if room else OF_ALL
        bounds.refuse(name, what, why, float(requested))
        return None
    if granted != requested:
        bounds.refuse(name, what, "the floor" if granted > requested else OF_ALL, requested, granted)
    if abs(granted - now) <= SAME * now:
        # What is left of a quota by rounding is no reason for an action.
        return None
    allocated[row] = granted
    return granted


def _granted_heap(size: ApplicationSize, most: float, bounds: PlanBounds) -> float | None:
    """Return the heap, cut to ``most``, the memory that the application will have, or can have."""
    heap, name = size.heap_bytes, bounds.snapshot.applications.name[size.application]
    if heap is None:
        return None
    if not (np.isfinite(heap) and heap > 0):
        bounds.refuse(name, "heap", "it is a finite figure above 0", float(heap))
        return None
    if heap < bounds.limits.least_heap_bytes:
        applications, row = bounds.snapshot.applications, size.application
        heap, now = bounds.limits.least_heap_bytes, or_nan(applications.heap_bytes, len(applications))[row]
        bounds.refuse(name, "heap", "the floor", size.heap_bytes or 0.0, heap)
        if heap >= now:
            return None
    if heap > most:
        bounds.refuse(name, "heap", "it lies within the memory", heap, most)
        return float(most) or None
    return heap


def _granted_threads(size: ApplicationSize, bounds: PlanBounds) -> int | None:
    if size.threads is None:
        return None
    applications, limits, row = bounds.snapshot.applications, bounds.limits, size.application
    is_own = bounds.snapshot.tasks.application == row
    measured = applications.threads is not None and np.isfinite(applications.threads[row])
    now = (
        float(applications.threads[row])
        if measured and applications.threads is not None
        else float(bounds.now[is_own].sum())
    )
    most = min(max(np.floor(limits.step_factor * now), now + 1), max(limits.most_instances, now))
    why = f"a step is at most x{limits.step_factor:g}, and all tasks have at most {limits.most_instances} instances"
    if bounds.vetoed[is_own].any():
        most, why = min(most, max(now, 1.0)), "it waits for a service that falters"
    granted = int(min(max(size.threads, 1), most))
    if granted != size.threads:
        bounds.refuse(applications.name[row], "threads", why, size.threads, granted)
    return None if granted == now else granted
