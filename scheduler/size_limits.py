"""The sizes of tasks that quotas, steps, key groups and partitions allow. Called by `plan_limits`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.plan import TaskSize
from penstock.scheduler.limits import Bounds

ROUNDING = 1e-9
HALVINGS = 40

Counts = NDArray[np.int64]


def _known(sizes: Sequence[TaskSize], bounds: Bounds) -> list[TaskSize]:
    """Return sizes of tasks that there are, each once, of one instance or more, with memory that can be given."""
    found: dict[int, TaskSize] = {}
    for size in sizes:
        if not 0 <= size.task < len(bounds.now) or size.task in found:
            bounds.refuse(f"task {size.task}", "parallelism", "there is no such task, or it is sized twice")
            continue
        if size.parallelism < 1:
            bounds.refuse(bounds.task(size.task), "parallelism", "a task has an instance", size.parallelism, 1)
            size = replace(size, parallelism=1)
        wrong_bytes = size.managed_bytes is not None and not 0 <= size.managed_bytes < 2**63
        if wrong_bytes or (size.memory_level is not None and size.memory_level < 0):
            asked = np.nan if size.managed_bytes is None else float(size.managed_bytes)
            bounds.refuse(bounds.task(size.task), "memory", "memory is 0 bytes or more, levels begin at 0", asked)
            size = replace(size, managed_bytes=None, memory_level=None)
        found[size.task] = size
    return list(found.values())


def limited_sizes(asked: Sequence[TaskSize], bounds: Bounds) -> tuple[TaskSize, ...]:
    """Return the sizes of the largest share of each application's target that fits, and of all of them together."""
    sizes = _known(asked, bounds)
    if not sizes:
        return ()
    task = np.array([size.task for size in sizes])
    now, wanted = bounds.now[task], np.array([size.parallelism for size in sizes], np.float64)
    grows = wanted > now
    fits = np.where(grows, np.minimum(1.0, bounds.most[task] / wanted), 1.0)
    owner = bounds.snapshot.tasks.application[task]
    share = np.ones(len(bounds.snapshot.applications))
    # A task that may not grow at all holds up itself alone: what it can take, the others are sized for already.
    held = bounds.vetoed[task] & grows
    np.minimum.at(share, owner[~held], fits[~held])
    given = _of_share(wanted, now, grows, share[owner])
    given[held] = np.maximum(now[held], 1)
    each = _managed(sizes, bounds)
    of_share = given
    given, each_after = _within_quotas(given, now, grows, each, bounds, task)
    kept = []
    for place, size in enumerate(sizes):
        after = int(given[place])
        if after != size.parallelism:
            why = bounds.why[size.task] if fits[place] < 1 else "in proportion to a task that may not grow so far"
            why = "the quota of all tasks" if after < of_share[place] else why
            bounds.refuse(bounds.task(size.task), "parallelism", why, size.parallelism, after)
        has_memory = size.managed_bytes is not None or size.memory_level is not None
        if has_memory and each_after[place] < each[place]:
            bounds.refuse(bounds.task(size.task), "memory", "the quota of memory", float(each[place]))
            size, has_memory = replace(size, managed_bytes=None, memory_level=None), False
        if after != now[place] or has_memory:
            kept.append(replace(size, parallelism=after))
    return tuple(kept)


def _of_share(wanted: Floats, now: Counts, grows: Bools, share: Floats) -> Counts:
    scaled = np.maximum(np.ceil(wanted * share - ROUNDING), np.maximum(now, 1))
    return np.where(grows, scaled, wanted).astype(np.int64)


def _held(bounds: Bounds) -> Floats:
    """Return the memory of an instance's state by task now, 0 where nobody says."""
    instances, tasks = bounds.snapshot.instances, len(bounds.now)
    held = np.zeros(tasks)
    if instances.managed_bytes is not None:
        np.maximum.at(held, instances.task, np.nan_to_num(instances.managed_bytes))
    return held


def _managed(sizes: list[TaskSize], bounds: Bounds) -> Floats:
    held = _held(bounds)
    return np.array(
        [held[size.task] if size.managed_bytes is None else float(size.managed_bytes) for size in sizes], np.float64
    )


def _within_quotas(
    given: Counts,
    now: Counts,
    grows: Bools,
    each: Floats,
    bounds: Bounds,
    task: Counts,
) -> tuple[Counts, Floats]:
    """Return parallelism and memory of an instance within what all jobs may have together."""
    held = _held(bounds)
    rest = np.ones(len(bounds.now), np.bool_)
    rest[task] = False
    instances, memory = int(bounds.now[rest].sum()), float((bounds.now * held)[rest].sum())
    most_memory = bounds.limits.memory_quota(bounds.snapshot.machines, bounds.usable)

    def fits(count: Counts, each: Floats) -> bool:
        return instances + int(count.sum()) <= bounds.limits.most_instances and (
            memory + float((count * each).sum()) <= most_memory
        )

    if fits(given, each):
        return given, each
    # Where memory does not fit even at the present parallelism, nobody gets more of it.
    least = np.where(grows, np.maximum(now, 1), given)
    if memory + float((least * each).sum()) > most_memory:
        each = np.minimum(each, held[task])
    return _largest(given, now, grows, lambda count: fits(count, each)), each


def _largest(given: Counts, now: Counts, grows: Bools, fits: Callable[[Counts], bool]) -> Counts:
    """Return the sizes of the largest share that fits; where none does, nothing grows."""
    low, high = 0.0, 1.0
    wanted = given.astype(np.float64)
    best = _of_share(wanted, now, grows, np.zeros(len(given)))
    for _ in range(HALVINGS):
        share = (low + high) / 2
        tried = _of_share(wanted, now, grows, np.full(len(given), share))
        if fits(tried):
            low, best = share, tried
        else:
            high = share
    return best
