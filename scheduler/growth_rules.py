"""Sage's rules that grow a resource, P1 to P4. Listed in `sizing`.

docs/design/papers/sage.md 2 covers what the paper leaves open. Growth is multiplicative, except for threads, which are
set to the need of the input.
"""

import numpy as np

from penstock.model.columns import Bools
from penstock.scheduler.observations import ApplicationMetrics, Window
from penstock.scheduler.rule_window import RuleWindow
from penstock.scheduler.sizing_rule import Resource, Rule, RuleLimits, SizingProposal
from penstock.scheduler.workload import (
    SHED,
    core_starved_samples,
    cores_needed,
    cores_to_catch_up,
    late_samples,
    threads_needed,
)

NEGLIGIBLE = 0.1
"""So small a part of the rows that may wait is none."""

SAME = 0.02
"""A need that is higher by no more than this part is the same one, measured again."""


class HeapUp(Rule):
    """P1: the heap is full, or garbage collection takes too long. The heap grows only within the memory."""

    name, resource, window_s = "heap up", Resource.HEAP, 300.0
    needs = ("heap", "memory", "heap_used", "gc")
    after: tuple[Resource, ...] = (Resource.HEAP,)
    goes_first = True

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Multiply the heap, up to the memory."""
        heap, memory = window.ticks.heap[-1], window.ticks.memory[-1]
        short = heap_is_short(window.ticks, limits)
        return SizingProposal(short & (heap < memory), np.minimum(heap * limits.growth, memory))


class MemoryUp(Rule):
    """P2: memory is full, caused a kill, makes state be read from disk too often, or is filled by the heap."""

    name, resource, window_s = "memory up", Resource.MEMORY, 300.0
    needs = ("memory", "resident", "kills", "disk_io")
    after: tuple[Resource, ...] = (Resource.HEAP, Resource.MEMORY)
    goes_first = True

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Multiply the memory."""
        ticks = window.ticks
        memory = ticks.memory[-1]
        full = _exceeds(ticks.resident, ticks.memory, limits.up) | (np.nansum(ticks.kills, axis=0) > 0)
        paged = np.nanmean(ticks.disk_io, axis=0) > limits.disk_io
        pressed = heap_is_short(ticks, limits) & (ticks.heap[-1] >= memory)
        return SizingProposal(full | paged | pressed, memory * limits.growth)


class CpuUp(Rule):
    """P3: the cores are used up, or the application was throttled; and rows had to wait, or wait longer and longer.

    A loop that always has rows to take uses all the cores it gets, in smaller batches: while hardly a row waits, cores
    that are used up suffice.
    """

    name, resource, window_s = "CPU up", Resource.CORES, 300.0
    needs = ("cores", "cpu", "throttled")
    after: tuple[Resource, ...] = (Resource.HEAP, Resource.MEMORY, Resource.CORES)

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Multiply the cores, but not beyond what is needed, if that is more than there is.

        Needed are the cores for the rows that come, and the margin or what drains the backlog in time, if that is more.
        Where that much is there and the backlog does not fall, both. Where the backlog is unknown, throttling is no
        reason, and cores that are used up are one.
        """
        cores = window.ticks.cores[-1]
        used_up = _exceeds(window.ticks.cpu, window.ticks.cores, limits.up) & ~_keeps_up(window, limits)
        fires = used_up | _is_throttled(window, limits)
        with np.errstate(invalid="ignore"):
            needed, behind = cores_needed(window, limits, 0.0), cores_to_catch_up(window, limits)
            # Cores for a backlog that the margin drains would not be needed once that is done.
            most = np.maximum(needed * (1 + limits.margin), needed + behind)
            stays = (most <= cores) & ~(window.samples.backlog[-1] < window.samples.backlog[0])
            most = np.where(stays, (needed + behind) * (1 + limits.margin), most)
            # What is needed follows from the rows that come and what a row has cost; unknown, it says nothing.
            most = np.where(np.isnan(most), np.inf, most)
        is_enough = most <= (1 + SAME) * cores
        return SizingProposal(np.asarray(fires & ~is_enough, np.bool_), np.minimum(cores * limits.growth, most))


class ThreadsUp(Rule):
    """P4: the backlog keeps rising, or exceeds the bound, while cores are free, and no remote service explains it.

    The paper's backlog that rises from tick to tick is that of a steady load. Loads of several modes rise and fall
    within the window; there the latency bound decides.
    """

    name, resource, window_s = "parallelism up", Resource.THREADS, 600.0
    needs = ("threads", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = tuple(Resource)

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Set the threads to the input's need at the present rate per busy thread (DS2); at least multiply them."""
        ticks = window.ticks
        threads, needed = ticks.threads[-1], threads_needed(window, limits, limits.catch_up_s)
        fires = _is_rising(window) & ~(window.samples.throttled.mean(axis=0) > limits.throttled)
        if not limits.only_rising:
            late, starved = late_samples(window, limits), core_starved_samples(window.samples, limits)
            waits = late & ~starved & (window.samples.appended > window.samples.consumed)
            # In the first late sample cores may not have lacked yet: the next one tells.
            is_late = ((waits[1:] & late[:-1]) | (waits[:-1] & ~starved[1:])).any(axis=0)
            with np.errstate(invalid="ignore"):
                fires |= is_late & ~(needed <= threads)
        multiplied = np.ceil(threads * limits.growth)
        with np.errstate(invalid="ignore"):
            value = np.where(needed > threads, needed, multiplied)
        return SizingProposal(np.asarray(fires, np.bool_), value)


def heap_is_short(ticks: ApplicationMetrics, limits: RuleLimits) -> Bools:
    """Return where the heap is full or garbage collection takes too long; False where heaps were not measured."""
    full = (ticks.heap_used / ticks.heap).mean(axis=0) > limits.up
    return np.asarray(full | (ticks.gc.mean(axis=0) > limits.gc), np.bool_)


def _is_throttled(window: RuleWindow, limits: RuleLimits) -> Bools:
    """Return where rows waited too long for cores, or wait longer and longer for them."""
    starved = core_starved_samples(window.samples, limits)
    has_settled = (window.samples.settled_s >= limits.settle_s).all(axis=0)
    is_longer = _is_rising(window) & has_settled & (window.samples.throttled.mean(axis=0) > limits.throttled)
    return np.asarray((late_samples(window, limits) & starved).any(axis=0) | is_longer, np.bool_)


def _keeps_up(window: RuleWindow, limits: RuleLimits) -> Bools:
    """Return where hardly a row ever waited, as far as is known."""
    samples, bound = window.samples, NEGLIGIBLE * limits.idle_backlog_s * window.usual_rate
    with np.errstate(invalid="ignore"):
        # A backlog that is not known is none of these.
        on_time = (samples.backlog <= bound) & ~(samples.shed > SHED)
    return np.asarray(~np.isnan(window.partitions) & on_time.all(axis=0), np.bool_)


def _is_rising(window: RuleWindow) -> Bools:
    """Return where the backlog grew from each tick of the window to the next."""
    backlog = window.ticks.backlog
    return np.asarray(np.all(np.diff(backlog, axis=0) > 0, axis=0) & (len(backlog) > 2), np.bool_)


def _exceeds(used: Window, allocated: Window, share: float) -> Bools:
    return np.asarray((used / allocated).mean(axis=0) > share, np.bool_)
