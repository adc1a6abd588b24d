"""Limits on task sizes: quotas, steps, key groups and partitions. Called by `plan_limits`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.plan import TaskSize
from penstock.scheduler.limits import OF_ALL, PlanBounds

ROUNDING = 1e-9
HALVINGS = 40

Counts = NDArray[np.int64]


def _valid_sizes(sizes: Sequence[TaskSize], bounds: PlanBounds) -> list[TaskSize]:
    """Return the valid sizes: of existing tasks, once each, with at least one instance and possible memory."""
    valid: dict[int, TaskSize] = {}
    for size in sizes:
        if not 0 <= size.task < len(bounds.now) or size.task in valid:
            bounds.refuse(f"task {size.task}", "parallelism", "there is no such task, or it is sized twice")
            continue
        if size.parallelism < 1:
            bounds.refuse(bounds.task(size.task), "parallelism", "a task has an instance", size.parallelism, 1)
            size = replace(size, parallelism=1)
        wrong_bytes = size.managed_bytes is not None and not 0 <= size.managed_bytes < 2**63
        if wrong_bytes or (size.memory_level is not None and size.memory_level < 0):
            requested = np.nan if size.managed_bytes is None else float(size.managed_bytes)
            bounds.refuse(bounds.task(size.task), "memory", "memory is 0 bytes or more, levels begin at 0", requested)
            size = replace(size, managed_bytes=None, memory_level=None)
        valid[size.task] = size
    return list(valid.values())


def limited_sizes(requested: Sequence[TaskSize], bounds: PlanBounds) -> tuple[TaskSize, ...]:
    """Return the sizes at the largest share of each application's target that fits, alone and together."""
    sizes = _valid_sizes(requested, bounds)
    if not sizes:
        return ()
    task = np.array([size.task for size in sizes])
    now, target = bounds.now[task], np.array([size.parallelism for size in sizes], np.float64)
    grows = target > now
    fits = np.where(grows, np.minimum(1.0, bounds.most[task] / target), 1.0)
    owner = bounds.snapshot.tasks.application[task]
    share = np.ones(len(bounds.snapshot.applications))
    # A vetoed task limits only itself: the others are already sized for what it can take.
    vetoed = bounds.vetoed[task] & grows
    np.minimum.at(share, owner[~vetoed], fits[~vetoed])
    granted = _share_of_target(target, now, grows, share[owner])
    granted[vetoed] = np.maximum(now[vetoed], 1)
    memory = _memory_of_sizes(sizes, bounds)
    of_share = granted
    granted, memory_after = _within_quotas(granted, now, grows, memory, bounds, task)
    limited = []
    for place, size in enumerate(sizes):
        after = int(granted[place])
        if after != size.parallelism:
            why = bounds.why[size.task] if fits[place] < 1 else "in proportion to a task that may not grow so far"
            why = "the quota of all tasks" if after < of_share[place] else why
            bounds.refuse(bounds.task(size.task), "parallelism", why, size.parallelism, after)
        has_memory = size.managed_bytes is not None or size.memory_level is not None
        if has_memory and memory_after[place] < memory[place]:
            bounds.refuse(bounds.task(size.task), "memory", "the quota of memory", float(memory[place]))
            size, has_memory = replace(size, managed_bytes=None, memory_level=None), False
        if after != now[place] or has_memory:
            limited.append(replace(size, parallelism=after))
    return tuple(limited)


def _share_of_target(target: Floats, now: Counts, grows: Bools, share: Floats) -> Counts:
    scaled = np.maximum(np.ceil(target * share - ROUNDING), np.maximum(now, 1))
    return np.where(grows, scaled, target).astype(np.int64)


def _memory_now(bounds: PlanBounds) -> Floats:
    """Return the present state memory of an instance by task, 0 where unknown."""
    instances, tasks = bounds.snapshot.instances, len(bounds.now)
    memory = np.zeros(tasks)
    if instances.managed_bytes is not None:
        np.maximum.at(memory, instances.task, np.nan_to_num(instances.managed_bytes))
    return memory


def _memory_of_sizes(sizes: list[TaskSize], bounds: PlanBounds) -> Floats:
    memory_now = _memory_now(bounds)
    return np.array(
        [memory_now[size.task] if size.managed_bytes is None else float(size.managed_bytes) for size in sizes],
        np.float64,
    )


def _within_quotas(
    granted: Counts,
    now: Counts,
    grows: Bools,
    memory: Floats,
    bounds: PlanBounds,
    task: Counts,
) -> tuple[Counts, Floats]:
    """Return the parallelism and the memory of an instance within the quotas of all jobs, of which others have a part.

    Where no quota of memory was given, machines have memory of their own: it bounds what instances may get more of, and
    not how many there are, as others come with more.
    """
    memory_now = _memory_now(bounds)
    others = np.ones(len(bounds.now), np.bool_)
    others[task] = False
    others_instances, others_memory = int(bounds.now[others].sum()), float((bounds.now * memory_now)[others].sum())
    is_given = bounds.limits.most_memory_bytes is not None
    most_memory = bounds.limits.memory_quota(bounds.snapshot.machines, bounds.usable) - bounds.elsewhere_bytes

    def fits(count: Counts, memory: Floats) -> bool:
        is_bound = is_given or bool((memory > memory_now[task]).any())
        return others_instances + int(count.sum()) <= bounds.limits.most_instances and (
            not is_bound or others_memory + float((count * memory).sum()) <= most_memory
        )

    if fits(granted, memory):
        return granted, memory
    # Where memory does not fit even at the present parallelism, nobody gets more of it.
    least = np.where(grows, np.maximum(now, 1), granted)
    asked = others_memory + float((granted * memory).sum())
    if others_memory + float((least * memory).sum()) > most_memory:
        memory = np.minimum(memory, memory_now[task])
    after = _largest_share(granted, now, grows, lambda count: fits(count, memory))
    if bounds.elsewhere_bytes and asked > most_memory:
        name = bounds.snapshot.applications.name[bounds.snapshot.tasks.application[task[0]]]
        bounds.refuse(name, "memory", OF_ALL, asked, others_memory + float((after * memory).sum()))
    return after, memory


def _largest_share(granted: Counts, now: Counts, grows: Bools, fits: Callable[[Counts], bool]) -> Counts:
    """Return the sizes at the largest share that fits; where none does, nothing grows."""
    low, high = 0.0, 1.0
    target = granted.astype(np.float64)
    best = _share_of_target(target, now, grows, np.zeros(len(granted)))
    for _ in range(HALVINGS):
        share = (low + high) / 2
        candidate = _share_of_target(target, now, grows, np.full(len(granted), share))
        if fits(candidate):
            low, best = share, candidate
        else:
            high = share
    return best
