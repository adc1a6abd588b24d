"""The policies of Sage that let a resource grow, P1 to P4. Listed in `sizing`.

What the paper leaves open of them is in docs/design/papers/sage.md 2. Growth is multiplicative, but for threads, which
go to what the input needs.
"""

import numpy as np

from penstock.model.columns import Bools
from penstock.scheduler.looks import Look
from penstock.scheduler.observations import Observed, Window
from penstock.scheduler.sizing_rule import Limits, Proposal, Resource, Rule
from penstock.scheduler.work import by_cores, cores_needed, cores_to_catch_up, late, threads_needed


class HeapUp(Rule):
    """P1: the heap is full, or collecting garbage takes too long. It grows inside the memory only."""

    name, resource, window_s = "heap up", Resource.HEAP, 300.0
    needs = ("heap", "memory", "heap_used", "gc")
    after: tuple[Resource, ...] = (Resource.HEAP,)

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Multiply the heap, up to the memory."""
        heap, memory = seen.ticks.heap[-1], seen.ticks.memory[-1]
        short = heap_is_short(seen.ticks, limits)
        return Proposal(short & (heap < memory), np.minimum(heap * limits.growth, memory))


class MemoryUp(Rule):
    """P2: memory is full, something was killed for it, state is read from disk too much, or the heap fills it all."""

    name, resource, window_s = "memory up", Resource.MEMORY, 300.0
    needs = ("memory", "resident", "kills", "disk_io")
    after: tuple[Resource, ...] = (Resource.HEAP, Resource.MEMORY)

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Multiply the memory."""
        own = seen.ticks
        memory = own.memory[-1]
        full = _over(own.resident, own.memory, limits.up) | (np.nansum(own.kills, axis=0) > 0)
        paged = np.nanmean(own.disk_io, axis=0) > limits.disk_io
        pressed = heap_is_short(own, limits) & (own.heap[-1] >= memory)
        return Proposal(full | paged | pressed, memory * limits.growth)


class CpuUp(Rule):
    """P3: the cores are used up, or the application was throttled and rows had to wait for it."""

    name, resource, window_s = "CPU up", Resource.CORES, 300.0
    needs = ("cores", "cpu", "throttled")
    after: tuple[Resource, ...] = (Resource.HEAP, Resource.MEMORY, Resource.CORES)

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Multiply the cores. Where nobody knows the backlog, throttling is no reason.

        Cores that are used up to make up for a backlog are enough, if they will have done so in time.
        """
        cores = seen.ticks.cores[-1]
        fires = _over(seen.ticks.cpu, seen.ticks.cores, limits.up) | _throttled(seen, limits)
        with np.errstate(invalid="ignore"):
            needed = cores_needed(seen, limits, 0.0) + cores_to_catch_up(seen, limits)
            is_enough = needed <= limits.up * cores
        return Proposal(np.asarray(fires & ~is_enough, np.bool_), cores * limits.growth)


class ThreadsUp(Rule):
    """P4: the backlog rises all the time, or is beyond the bound while there are cores; no remote service explains it.

    The paper's backlog that rises from tick to tick is that of a steady load. Loads of several modes rise and fall
    within the window; what the bound of latency forbids is then said by the bound.
    """

    name, resource, window_s = "parallelism up", Resource.THREADS, 600.0
    needs = ("threads", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = tuple(Resource)

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Set the threads to what the input needs at today's rate per busy thread (DS2); at least multiply them."""
        own = seen.ticks
        threads, needed = own.threads[-1], threads_needed(seen, limits, limits.catch_up_s)
        fires = np.all(np.diff(own.backlog, axis=0) > 0, axis=0) & (len(own.backlog) > 2)
        if not limits.only_rising:
            grew = seen.samples.appended > seen.samples.consumed
            waits = (late(seen, limits) & ~by_cores(seen.samples, limits) & grew).any(axis=0)
            with np.errstate(invalid="ignore"):
                fires |= waits & ~(needed <= threads)
        multiplied = np.ceil(threads * limits.growth)
        with np.errstate(invalid="ignore"):
            value = np.where(needed > threads, needed, multiplied)
        return Proposal(np.asarray(fires, np.bool_), value)


def heap_is_short(window: Observed, limits: Limits) -> Bools:
    """Tell where the heap is full or garbage is collected too long; no where heaps were not measured."""
    full = (window.heap_used / window.heap).mean(axis=0) > limits.up
    return np.asarray(full | (window.gc.mean(axis=0) > limits.gc), np.bool_)


def _throttled(seen: Look, limits: Limits) -> Bools:
    """Tell where rows waited too long for cores."""
    return np.asarray((late(seen, limits) & by_cores(seen.samples, limits)).any(axis=0), np.bool_)


def _over(used: Window, given: Window, share: float) -> Bools:
    return np.asarray((used / given).mean(axis=0) > share, np.bool_)
