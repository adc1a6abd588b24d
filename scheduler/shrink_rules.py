"""Sage's rules that shrink a resource, P5 to P8. Listed in `sizing`.

They are inferred where the paper leaves them open (docs/design/papers/sage.md 2). A shrink goes straight to the
measured peak, provided that the latency bound was kept all the time.
"""

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.scheduler.observations import ApplicationMetrics
from penstock.scheduler.rule_window import RuleWindow
from penstock.scheduler.sizing_rule import Resource, Rule, RuleLimits, SizingProposal
from penstock.scheduler.workload import cores_needed, has_late_rows, threads_needed


class HeapDown(Rule):
    """P5: more heap than was ever committed, and than is needed to keep P1 from growing it again.

    Heap that is not committed costs a host nothing. So it shrinks only where it prevents a smaller memory: an action
    that frees nothing does not justify a restart.
    """

    name, resource, window_s = "heap down", Resource.HEAP, 1800.0
    needs = ("heap", "memory", "resident", "heap_committed", "heap_used", "gc", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = (Resource.HEAP,)

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Set the heap to the committed peak plus the margin, with at least the free heap that P1's limits allow.

        H' >= L + (H - L) x G (1 + margin) / gc

        L: live heap; G: share of time in garbage collection, proportional to 1 / (H - L); gc: its limit.
        """
        ticks = window.ticks
        free = ticks.heap - ticks.heap_used
        keeps = ticks.heap_used + free * ticks.gc * (1 + limits.margin) / limits.gc
        least = np.maximum(ticks.heap_committed.max(axis=0), keeps.max(axis=0) / (1 + limits.margin))
        proposal = _proposal_for_peak(least, ticks.heap[-1], window, limits)
        memory = likely_resident(ticks) * (1 + limits.margin)
        is_in_the_way = (ticks.heap[-1] > memory) & (memory < limits.down * ticks.memory[-1])
        return SizingProposal(proposal.fires & is_in_the_way, proposal.value)


class MemoryDown(Rule):
    """P6: more memory than was ever resident, counting all committed heap as resident."""

    name, resource, window_s = "memory down", Resource.MEMORY, 1800.0
    needs = ("memory", "heap", "resident", "heap_committed", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = (Resource.HEAP, Resource.MEMORY)

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Set the memory to the likely resident size plus the margin; never below the heap."""
        least = np.maximum(likely_resident(window.ticks), window.heap / (1 + limits.margin))
        return _proposal_for_peak(least, window.ticks.memory[-1], window, limits)


class CpuDown(Rule):
    """P7: more cores than the work's peak needs."""

    name, resource, window_s = "CPU down", Resource.CORES, 1800.0
    needs = ("cores", "cpu", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = (Resource.CORES,)

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Set the cores to the need of the peak, margin included."""
        return _proposal_for_value(cores_needed(window, limits, limits.margin), window.ticks.cores[-1], window, limits)


class ThreadsDown(Rule):
    """P8: more threads than the work's peak keeps busy."""

    name, resource, window_s = "parallelism down", Resource.THREADS, 1800.0
    needs = ("threads", "busy_threads", "backlog", "consumed", "appended")
    after: tuple[Resource, ...] = (Resource.CORES, Resource.THREADS)

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Set the threads to the need of the peak, margin included; at least one."""
        return _proposal_for_value(threads_needed(window, limits), window.ticks.threads[-1], window, limits)


def likely_resident(ticks: ApplicationMetrics) -> Floats:
    """Return the peak of resident memory, counting all committed heap as resident."""
    outside = np.maximum(ticks.resident - ticks.heap_committed, 0.0).max(axis=0)
    return np.asarray(np.maximum(ticks.resident.max(axis=0), ticks.heap_committed.max(axis=0) + outside), np.float64)


def _is_idle(window: RuleWindow, limits: RuleLimits) -> Bools:
    """Return where no rows waited, up to the last tick, so that any catch-up is over.

    The duration of the action itself is a small part of that time.
    """
    settled = window.samples.settled_s[-1] >= 0.9 * limits.settle_s
    return np.asarray(~has_late_rows(window.last(limits.idle_s), limits) & settled, np.bool_)


def _proposal_for_peak(peak: Floats, allocated: Floats, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
    return _proposal_for_value(peak * (1 + limits.margin), allocated, window, limits)


def _proposal_for_value(value: Floats, allocated: Floats, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
    with np.errstate(invalid="ignore"):
        return SizingProposal(
            np.asarray(_is_idle(window, limits) & (value < limits.down * allocated) & (value > 0), np.bool_), value
        )
