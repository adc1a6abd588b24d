"""The policies of Sage that let a resource shrink, P5 to P8. Listed in `sizing`.

They are inferred where the paper leaves them open (docs/design/papers/sage.md 2). A shrink goes to the measured peak at
once, where the bound of latency was kept all the time.
"""

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.scheduler.looks import Look
from penstock.scheduler.observations import Observed
from penstock.scheduler.sizing_rule import Limits, Proposal, Resource, Rule
from penstock.scheduler.work import cores_needed, threads_needed, waited


class HeapDown(Rule):
    """P5: more heap than was ever committed, and than keeps collections rare enough not to ask for more at once.

    A heap takes nothing from a host before it is committed. So it shrinks only where it stands in the way of a smaller
    memory: an action that frees nothing is not worth a restart.
    """

    name, resource, window_s = "heap down", Resource.HEAP, 1800.0
    needs = ("heap", "memory", "resident", "heap_committed", "heap_used", "gc", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = (Resource.HEAP,)

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Set the heap to what was committed, and the margin; free heap no smaller than bounds of P1 allow.

        H' >= L + (H - L) x G (1 + margin) / gc

        L: live heap; G: part of the time in which garbage was collected, which goes as 1 / (H - L); gc: its bound.
        """
        window = seen.ticks
        free = window.heap - window.heap_used
        keeps = window.heap_used + free * window.gc * (1 + limits.margin) / limits.gc
        least = np.maximum(window.heap_committed.max(axis=0), keeps.max(axis=0) / (1 + limits.margin))
        found = _down(least, window.heap[-1], seen, limits)
        memory = likely_resident(window) * (1 + limits.margin)
        is_in_the_way = (window.heap[-1] > memory) & (memory < limits.down * window.memory[-1])
        return Proposal(found.fires & is_in_the_way, found.value)


class MemoryDown(Rule):
    """P6: more memory than was ever resident, if all committed heap had been."""

    name, resource, window_s = "memory down", Resource.MEMORY, 1800.0
    needs = ("memory", "heap", "resident", "heap_committed", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = (Resource.HEAP, Resource.MEMORY)

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Set the memory to the likely resident size, and the margin; never below the heap."""
        least = np.maximum(likely_resident(seen.ticks), seen.heap / (1 + limits.margin))
        return _down(least, seen.ticks.memory[-1], seen, limits)


class CpuDown(Rule):
    """P7: more cores than the peak of the work needs."""

    name, resource, window_s = "CPU down", Resource.CORES, 1800.0
    needs = ("cores", "cpu", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = (Resource.CORES,)

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Set the cores to what the peak needs, the margin included."""
        return _shrunk(cores_needed(seen, limits, limits.margin), seen.ticks.cores[-1], seen, limits)


class ThreadsDown(Rule):
    """P8: more threads than the peak of the work keeps busy."""

    name, resource, window_s = "parallelism down", Resource.THREADS, 1800.0
    needs = ("threads", "busy_threads", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = (Resource.CORES, Resource.THREADS)

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Set the threads to what the peak needs, the margin included; at least one."""
        return _shrunk(threads_needed(seen, limits), seen.ticks.threads[-1], seen, limits)


def likely_resident(window: Observed) -> Floats:
    """Return the most that was resident, or would have been, were all committed heap resident."""
    outside = np.maximum(window.resident - window.heap_committed, 0.0).max(axis=0)
    return np.asarray(np.maximum(window.resident.max(axis=0), window.heap_committed.max(axis=0) + outside), np.float64)


def _idle(seen: Look, limits: Limits) -> Bools:
    """Tell where no rows waited, the last tick included: whatever was caught up with before is done with.

    What the action itself took, from when it was asked for, is a small part of that time.
    """
    settled = seen.samples.settled_s[-1] >= 0.9 * limits.settle_s
    return np.asarray(~waited(seen.last(limits.idle_s), limits) & settled, np.bool_)


def _down(peak: Floats, given: Floats, seen: Look, limits: Limits) -> Proposal:
    return _shrunk(peak * (1 + limits.margin), given, seen, limits)


def _shrunk(value: Floats, given: Floats, seen: Look, limits: Limits) -> Proposal:
    with np.errstate(invalid="ignore"):
        return Proposal(np.asarray(_idle(seen, limits) & (value < limits.down * given) & (value > 0), np.bool_), value)
