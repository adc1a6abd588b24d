"""What whole applications may be given: cores, memory, heap and threads. Called by `plan_limits`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.model.columns import Floats
from penstock.model.plan import ApplicationSize
from penstock.scheduler.limits import Bounds
from penstock.scheduler.true_rates import or_nan


def limited_applications(asked: Sequence[ApplicationSize], bounds: Bounds) -> tuple[ApplicationSize, ...]:
    """Return the sizes within the quotas; what the others have now is taken."""
    applications, machines = bounds.snapshot.applications, bounds.snapshot.machines
    count = len(applications)
    cores, memory = or_nan(applications.cores, count).copy(), or_nan(applications.memory_bytes, count).copy()
    most_cores = bounds.limits.cores_quota(machines, bounds.usable)
    most_memory = bounds.limits.memory_quota(machines, bounds.usable)
    kept: list[ApplicationSize] = []
    for size in asked:
        row = size.application
        if not 0 <= row < count:
            bounds.refuse(f"application {row}", "cores", "there is no such application")
            continue
        given = replace(
            size,
            cores=_share(size.cores, cores, row, 0.0, most_cores, "cores", bounds),
            memory_bytes=_share(
                size.memory_bytes, memory, row, bounds.limits.least_memory_bytes, most_memory, "memory", bounds
            ),
            threads=_threads(size, bounds),
        )
        given = replace(given, heap_bytes=_heap(given, memory[row], bounds))
        if given != ApplicationSize(row):
            kept.append(given)
    return tuple(kept)


def _share(
    asked: float | None, taken: Floats, row: int, least: float, most: float, what: str, bounds: Bounds
) -> float | None:
    """Return what an application gets of a quota, and note it in ``taken``; None: it stays as it is."""
    if asked is None:
        return None
    name, now = bounds.snapshot.applications.name[row], taken[row]
    if not (np.isfinite(asked) and asked > 0):
        bounds.refuse(name, what, "it is a finite figure above 0", float(asked))
        return None
    others = float(np.nansum(taken)) - float(np.nan_to_num(now))
    room = max(most - others, float(np.nan_to_num(now)))
    given = max(min(asked, room), least)
    if given > room:
        bounds.refuse(name, what, "the floor does not fit the quota", float(asked))
        return None
    if given != asked:
        bounds.refuse(name, what, "the floor" if given > asked else "the quota of all applications", asked, given)
    if given == now:
        return None
    taken[row] = given
    return given


def _heap(size: ApplicationSize, memory: float, bounds: Bounds) -> float | None:
    """Return the heap, which lies within the memory that the application then has."""
    heap, name = size.heap_bytes, bounds.snapshot.applications.name[size.application]
    if heap is None:
        return None
    if not (np.isfinite(heap) and heap > 0):
        bounds.refuse(name, "heap", "it is a finite figure above 0", float(heap))
        return None
    if heap > memory:
        bounds.refuse(name, "heap", "it lies within the memory", heap, memory)
        return float(memory)
    return heap


def _threads(size: ApplicationSize, bounds: Bounds) -> int | None:
    if size.threads is None:
        return None
    applications, limits, row = bounds.snapshot.applications, bounds.limits, size.application
    own = bounds.snapshot.tasks.application == row
    measured = applications.threads is not None and np.isfinite(applications.threads[row])
    now = (
        float(applications.threads[row])
        if measured and applications.threads is not None
        else float(bounds.now[own].sum())
    )
    most = min(max(np.floor(limits.step_factor * now), now + 1), limits.most_instances)
    why = f"a step is at most x{limits.step_factor:g}, and all tasks have at most {limits.most_instances} instances"
    if bounds.vetoed[own].any():
        most, why = min(most, max(now, 1.0)), "it waits for a service that falters"
    given = int(min(max(size.threads, 1), most))
    if given != size.threads:
        bounds.refuse(applications.name[row], "threads", why, size.threads, given)
    return None if given == now else given
