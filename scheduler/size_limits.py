"""Limits on task sizes: quotas, steps, key groups and partitions. Called by `plan_limits`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.model.plan import TaskSize
from penstock.scheduler.limits import PlanBounds
from penstock.scheduler.quota_shares import Sizes, memory_targets, share_of_target, within_quotas


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
        floor = bounds.limits.least_task_bytes
        if (
            bounds.snapshot.tasks.is_stateful[size.task]
            and size.managed_bytes is not None
            and size.managed_bytes < floor
        ):
            bounds.refuse(bounds.task(size.task), "memory", "the floor", size.managed_bytes, floor)
            size = replace(size, managed_bytes=floor)
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
    granted = share_of_target(target, now, grows, share[owner])
    granted[vetoed] = np.maximum(now[vetoed], 1)
    memory = memory_targets(sizes, bounds)
    after = within_quotas(Sizes(task, now, granted, *memory), bounds)
    limited = []
    for place, size in enumerate(sizes):
        count, managed = int(after.count[place]), float(after.managed[place])
        if count != size.parallelism:
            why = bounds.why[size.task] if fits[place] < 1 else "in proportion to a task that may not grow so far"
            why = why if count == granted[place] else "the quota of all tasks"
            bounds.refuse(bounds.task(size.task), "parallelism", why, size.parallelism, count)
        has_memory = size.managed_bytes is not None or size.memory_level is not None
        if has_memory and managed < memory.target[place]:
            bounds.refuse(bounds.task(size.task), "memory", "the quota of memory", float(memory.target[place]), managed)
            has_memory = managed > memory.now[place]
            level = None if size.memory_level is None else size.memory_level - int(after.halvings[place])
            size = replace(size, memory_level=level if has_memory else None)
            size = replace(size, managed_bytes=int(managed) if has_memory else None)
        if count != now[place] or has_memory:
            limited.append(replace(size, parallelism=count))
    return tuple(limited)
