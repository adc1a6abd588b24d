"""The largest share of a plan's sizes that fits the quotas of instances and of memory. Called by `size_limits`.

Instances and memory come in the same share, so that a task is not left with the few instances that were to have more
memory, and without it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.memory_levels import MIB, bytes_at
from penstock.model.plan import TaskSize
from penstock.scheduler.limits import OF_ALL, PlanBounds

ROUNDING = 1e-9
HALVINGS = 40
SHARES = 64
"""Shares to begin with: where memory replaces instances, a larger one may fit where a smaller one does not."""

Counts = NDArray[np.int64]


class MemoryTargets(NamedTuple):
    """Memory of an instance by size, bytes: now (0 where unknown) and as asked for.

    ``steps``: levels between the two, of which each is half of the next; -1: any amount will do.
    """

    now: Floats
    target: Floats
    steps: Counts


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Sizes of tasks, now and as they are to be: instances, and the memory of each."""

    task: Counts
    count_now: Counts
    count: Counts
    memory_now: Floats
    memory: Floats
    steps: Counts

    def at(self, share: float, *, counts_too: bool) -> "GrantedSizes":
        """Return the sizes at a share in [0, 1] of what is to grow; ``counts_too``: instances as well as memory.

        Where more memory is to take the place of instances, as many stay as it does not replace yet.
        """
        richer = self.memory > self.memory_now
        managed, halvings = self.memory, np.zeros(len(self.task), np.int64)
        if share < 1:
            wanted = self.memory_now + share * (self.memory - self.memory_now)
            managed, halvings = _steps_below(self, wanted, richer)
        grows = self.count > self.count_now
        count = (
            share_of_target(self.count.astype(np.float64), self.count_now, grows, share) if counts_too else self.count
        )
        replaced = richer & (self.count < self.count_now)
        kept = np.rint(self.count_now - share * (self.count_now - self.count)).astype(np.int64)
        # Memory that comes in levels has come only with the last instance that it is to replace.
        kept = np.where(richer & (managed <= self.memory_now), self.count_now, kept)
        return GrantedSizes(np.where(replaced, kept, count), managed, halvings)


@dataclass(frozen=True, slots=True, eq=False)
class GrantedSizes:
    """The granted part of sizes: instances, the memory of each, and how many levels below what was asked for."""

    count: Counts
    managed: Floats
    halvings: Counts


def memory_targets(sizes: Sequence[TaskSize], bounds: PlanBounds) -> MemoryTargets:
    """Return the memory that sizes ask for, and what there is."""
    memory_now, levels = _memory_now(bounds), bounds.snapshot.tasks.memory_level
    now = memory_now[[size.task for size in sizes]]
    target, steps = now.copy(), np.full(len(sizes), -1, np.int64)
    for place, size in enumerate(sizes):
        level = int(levels[size.task])
        if size.memory_level is not None:
            steps[place] = max(size.memory_level - max(level, 0), 0)
            target[place] = bytes_at(size.memory_level, max(level, 0), float(now[place]))
        if size.managed_bytes is not None:
            target[place] = float(size.managed_bytes)
    return MemoryTargets(now, target, steps)


def within_quotas(sizes: Sizes, bounds: PlanBounds) -> GrantedSizes:
    """Return the sizes at the largest share that fits the quotas of all jobs, of which others have a part.

    Where no quota of memory was given, machines have memory of their own: it bounds what instances may get more of, and
    not how many there are, as others come with more. What takes no more than there is now fits.
    """
    memory_now, others = _memory_now(bounds), np.ones(len(bounds.now), np.bool_)
    others[sizes.task] = False
    others_instances, others_memory = int(bounds.now[others].sum()), float((bounds.now * memory_now)[others].sum())
    is_given = bounds.limits.most_memory_bytes is not None
    quota = bounds.limits.memory_quota(bounds.snapshot.machines, bounds.usable) - bounds.elsewhere_bytes
    most_memory = max(quota, others_memory + float((sizes.count_now * sizes.memory_now).sum()))

    def taken(given: GrantedSizes) -> float:
        return others_memory + float((given.count * given.managed).sum())

    def few(given: GrantedSizes) -> bool:
        return others_instances + int(given.count.sum()) <= bounds.limits.most_instances

    def fits(given: GrantedSizes) -> bool:
        is_bound = is_given or bool((given.managed > sizes.memory_now).any())
        return few(given) and (not is_bound or taken(given) <= most_memory)

    whole = sizes.at(1.0, counts_too=True)
    if fits(whole):
        return whole
    after = _largest_share(lambda share: sizes.at(share, counts_too=True), fits if is_given else few)
    if not is_given:
        counted = replace(sizes, count=after.count)
        after = _largest_share(lambda share: counted.at(share, counts_too=False), fits)
    if bounds.elsewhere_bytes and taken(whole) > most_memory:
        name = bounds.snapshot.applications.name[bounds.snapshot.tasks.application[sizes.task[0]]]
        bounds.refuse(name, "memory", OF_ALL, taken(whole), taken(after))
    return after


def share_of_target(target: Floats, now: Counts, grows: Bools, share: Floats | float) -> Counts:
    """Return instances at a share of those of what grows, and never fewer than there are."""
    scaled = np.maximum(np.ceil(target * share - ROUNDING), np.maximum(now, 1))
    return np.where(grows, scaled, target).astype(np.int64)


def _steps_below(sizes: Sizes, wanted: Floats, richer: Bools) -> tuple[Floats, Counts]:
    """Return the memory to be had at most ``wanted`` and not below what there is: whole levels, or whole MiB."""
    halvings = np.zeros(len(wanted), np.int64)
    leveled = richer & (sizes.steps >= 0)
    ratio = sizes.memory[leveled] / np.maximum(wanted[leveled], 1.0)
    halvings[leveled] = np.ceil(np.log2(ratio) - ROUNDING)
    managed = np.where(leveled, np.floor(sizes.memory / 2.0**halvings), np.floor(wanted / MIB) * MIB)
    managed = np.where(leveled & (halvings >= sizes.steps), sizes.memory_now, managed)
    return np.where(richer, np.maximum(managed, sizes.memory_now), sizes.memory), halvings


def _memory_now(bounds: PlanBounds) -> Floats:
    """Return the present state memory of an instance by task, 0 where unknown."""
    instances, tasks = bounds.snapshot.instances, len(bounds.now)
    memory = np.zeros(tasks)
    if instances.managed_bytes is not None:
        np.maximum.at(memory, instances.task, np.nan_to_num(instances.managed_bytes))
    return memory


def _largest_share(at: Callable[[float], GrantedSizes], fits: Callable[[GrantedSizes], bool]) -> GrantedSizes:
    """Return what is granted at the largest share that fits; where none does, nothing grows."""
    if fits(whole := at(1.0)):
        return whole
    low, best = 0.0, at(0.0)
    for step in range(SHARES - 1, 0, -1):
        if fits(candidate := at(step / SHARES)):
            low, best = step / SHARES, candidate
            break
    high = low + 1 / SHARES
    for _ in range(HALVINGS):
        share = (low + high) / 2
        candidate = at(share)
        if fits(candidate):
            low, best = share, candidate
        else:
            high = share
    return best
