"""Sage's rules with the shortest windows that suffice, each based on independent evidence.

The demand for cores and threads is measured as arriving work, independent of the present resources, with the planned
heap. So the evidence of these rules is the same before and after another one acts, and they can act together
(docs/design/papers/sage.md 6). Called by `sage_at_once`.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.scheduler.growth_rules import CpuUp, HeapUp, MemoryUp, ThreadsUp
from penstock.scheduler.rule_window import RuleWindow
from penstock.scheduler.shrink_rules import CpuDown, HeapDown, MemoryDown, ThreadsDown, likely_resident
from penstock.scheduler.sizing_rule import Resource, Rule, RuleLimits, SizingProposal
from penstock.scheduler.workload import cores_needed, cores_to_catch_up, threads_needed

EARLY_WINDOW_S = 120.0
"""Two ticks: the shortest window that distinguishes a shortage from a spike."""
GROWTH_WINDOW_S = 600.0
"""The shortest window in which live memory can be seen to have stopped growing."""
PEAK_WINDOW_S = 1200.0
"""The shortest window in which a load peak can be seen twice."""
STEADY_TOLERANCE = 0.03
"""Live memory is steady if it grows by at most this share from the first half of the window to the second."""
LONGEST_WINDOW_S = 1800.0
"""After this long a peak counts even if it was seen only once, as with the paper's windows."""


class EarlyHeapUp(HeapUp):
    """P1, decided after two ticks."""

    window_s = EARLY_WINDOW_S
    rests_on: tuple[Resource, ...] = ()


class EarlyMemoryUp(MemoryUp):
    """P2, decided after two ticks. It rests on the heap, since a growing heap commits more resident memory."""

    window_s = EARLY_WINDOW_S
    rests_on: tuple[Resource, ...] = (Resource.HEAP,)


class CpuToNeed(CpuUp):
    """P3, decided after two ticks, with the arriving work as target: one action suffices and none overshoots."""

    window_s = EARLY_WINDOW_S
    rests_on: tuple[Resource, ...] = ()
    after: tuple[Resource, ...] = ()
    most_s = LONGEST_WINDOW_S

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Set the cores to the need plus the margin, or to what drains a long backlog in time.

        At least half of the paper's step, since higher peaks may follow; nothing where the need is unknown.
        """
        fires = super().propose(window.last(limits.windows * CpuUp.window_s), limits).fires
        fires |= super().propose(window.last(limits.windows * EARLY_WINDOW_S), limits).fires
        cores, least = window.ticks.cores[-1], cores_needed(window, limits, 0.0)
        with_catch_up = least + cores_to_catch_up(window, limits)
        with np.errstate(invalid="ignore"):
            is_short = least > limits.up * cores
            is_behind = with_catch_up > (1 + limits.margin) * cores
            target = np.maximum(cores_needed(window, limits, limits.margin), cores * np.sqrt(limits.growth))
        value = np.fmax(np.where(is_short, target, 0.0), np.where(is_behind, with_catch_up, 0.0))
        return SizingProposal(np.asarray(fires & (is_short | is_behind), np.bool_), value)


class ThreadsToNeed(ThreadsUp):
    """P4, decided after two ticks, where the arriving work would need more threads even with enough cores."""

    window_s = EARLY_WINDOW_S
    rests_on: tuple[Resource, ...] = ()
    after: tuple[Resource, ...] = ()
    most_s = LONGEST_WINDOW_S

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Set the threads to the need; where it is unknown, wait as long as P4 does."""
        proposal = super().propose(window.last(limits.windows * ThreadsUp.window_s), limits)
        needed = threads_needed(window, limits)
        with np.errstate(invalid="ignore"):
            return SizingProposal(proposal.fires & (needed > window.ticks.threads[-1]), np.fmax(proposal.value, needed))


class EarlyHeapDown(HeapDown):
    """P5, decided once committed heap and garbage have stopped growing."""

    window_s = GROWTH_WINDOW_S
    rests_on: tuple[Resource, ...] = ()
    most_s = LONGEST_WINDOW_S

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """As P5."""
        limits = _ignoring_backlog(limits)
        proposal = super().propose(window, limits)
        parts = _halves(window.last(limits.windows * GROWTH_WINDOW_S))
        sizes = [super(EarlyHeapDown, self).propose(part, limits).value for part in parts]
        garbage = [part.ticks.gc.max(axis=0) for part in parts]
        steady = _is_steady(window, limits, sizes) & _is_steady(window, limits, garbage)
        return SizingProposal(proposal.fires & steady, proposal.value)


class EarlyMemoryDown(MemoryDown):
    """P6, decided once resident memory has stopped growing; never below the planned heap."""

    window_s = GROWTH_WINDOW_S
    rests_on: tuple[Resource, ...] = ()
    most_s = LONGEST_WINDOW_S

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """As P6."""
        limits = _ignoring_backlog(limits)
        proposal = super().propose(window, limits)
        peaks = [likely_resident(part.ticks) for part in _halves(window.last(limits.windows * GROWTH_WINDOW_S))]
        # Where the heap is in the way of a smaller memory, it goes first, or both go at once.
        is_free = likely_resident(window.ticks) * (1 + limits.margin) >= window.heap
        is_free |= np.full(len(is_free), window.length_s >= limits.windows * LONGEST_WINDOW_S)
        return SizingProposal(proposal.fires & is_free & _is_steady(window, limits, peaks), proposal.value)


class EarlyCpuDown(CpuDown):
    """P7, decided once the peak was seen twice."""

    window_s = PEAK_WINDOW_S
    rests_on: tuple[Resource, ...] = ()
    after: tuple[Resource, ...] = ()
    renews = False
    most_s = LONGEST_WINDOW_S

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """As P7."""
        proposal = super().propose(window, limits)
        peaks = [cores_needed(part, limits, limits.margin) for part in _halves(window)]
        return SizingProposal(proposal.fires & _same_peak_in_both_halves(window, limits, peaks), proposal.value)


class EarlyThreadsDown(ThreadsDown):
    """P8, decided once the peak was seen twice, and only with another action: idle threads do not justify a restart."""

    rides = True
    window_s = PEAK_WINDOW_S
    rests_on: tuple[Resource, ...] = ()
    after: tuple[Resource, ...] = ()
    renews = False
    most_s = LONGEST_WINDOW_S

    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """As P8."""
        proposal = super().propose(window, limits)
        peaks = [threads_needed(part, limits) for part in _halves(window)]
        return SizingProposal(proposal.fires & _same_peak_in_both_halves(window, limits, peaks), proposal.value)


CONCURRENT_RULES: Sequence[Rule] = (
    EarlyHeapUp(),
    EarlyMemoryUp(),
    CpuToNeed(),
    ThreadsToNeed(),
    EarlyHeapDown(),
    EarlyMemoryDown(),
    EarlyCpuDown(),
    EarlyThreadsDown(),
)
"""By priority, which decides between rules of which one rests on what the other changes."""


def _ignoring_backlog(limits: RuleLimits) -> RuleLimits:
    """Return the limits for memory rules: rows that wait for cores or threads never need less memory."""
    return replace(limits, idle_backlog_s=inf)


def _halves(window: RuleWindow) -> tuple[RuleWindow, RuleWindow]:
    return window.part(0.0, 0.5), window.part(0.5, 1.0)


def _is_steady(window: RuleWindow, limits: RuleLimits, peaks: Sequence[Floats]) -> Bools:
    """Return where the second half's peak is no higher than the first's, or the window has its full length."""
    return _is_close(window, limits, peaks[0], peaks[1], STEADY_TOLERANCE)


def _same_peak_in_both_halves(window: RuleWindow, limits: RuleLimits, peaks: Sequence[Floats]) -> Bools:
    """Return where both halves have the same peak within the margin, or the window has its full length."""
    return _is_close(window, limits, np.minimum(*peaks), np.maximum(*peaks), limits.margin)


def _is_close(window: RuleWindow, limits: RuleLimits, bound: Floats, peak: Floats, tolerance: float) -> Bools:
    is_full = window.length_s >= limits.windows * LONGEST_WINDOW_S
    with np.errstate(invalid="ignore"):
        return np.asarray(is_full | (peak <= (1 + tolerance) * bound), np.bool_)
