"""Sage's rules with windows that are as long as they need to be, each on evidence of its own.

What is asked of cores and threads is measured as work that comes, whatever there is to do it with, and with the heap
that there will be. So these rules see the same before and after another one acts, and can act together
(docs/design/papers/sage.md 6). Called by `sage_at_once`.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.scheduler.growing import CpuUp, HeapUp, MemoryUp, ThreadsUp
from penstock.scheduler.looks import Look
from penstock.scheduler.shrinking import CpuDown, HeapDown, MemoryDown, ThreadsDown, likely_resident
from penstock.scheduler.sizing_rule import Limits, Proposal, Resource, Rule
from penstock.scheduler.work import cores_needed, cores_to_catch_up, threads_needed

SOON_S = 120.0
"""Two ticks: the least that tells a lack from a moment."""
LEAST_S = 600.0
"""The least in which what lives can be seen to grow no more."""
PEAK_S = 1200.0
"""The least in which a peak of the load can be seen twice."""
STEADY = 0.03
"""What lives grows no more, if by no more than this from one half of the window to the other."""
MOST_S = 1800.0
"""After so long a peak counts though it was seen once, as the paper's windows have it."""


class HeapUpSoon(HeapUp):
    """P1 after two ticks."""

    window_s = SOON_S
    rests_on: tuple[Resource, ...] = ()


class MemoryUpSoon(MemoryUp):
    """P2 after two ticks. A heap that grows commits more, so what is resident rests on it."""

    window_s = SOON_S
    rests_on: tuple[Resource, ...] = (Resource.HEAP,)


class CpuToNeed(CpuUp):
    """P3 after two ticks, to what the work that comes needs: no more than one action, none too far."""

    window_s = SOON_S
    rests_on: tuple[Resource, ...] = ()
    after: tuple[Resource, ...] = ()
    most_s = MOST_S

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Set the cores to the need and the margin, or to what makes up for a long backlog in time.

        At least half a step of the paper's: higher peaks may come than have yet. Where nothing tells the need, nothing.
        """
        fires = super().propose(seen.last(CpuUp.window_s), limits).fires
        fires |= super().propose(seen.last(SOON_S), limits).fires
        cores, bare = seen.ticks.cores[-1], cores_needed(seen, limits, 0.0)
        beside = bare + cores_to_catch_up(seen, limits)
        with np.errstate(invalid="ignore"):
            lacks = bare > limits.up * cores
            is_behind = beside > (1 + limits.margin) * cores
            need = np.maximum(cores_needed(seen, limits, limits.margin), cores * np.sqrt(limits.growth))
        value = np.fmax(np.where(lacks, need, 0.0), np.where(is_behind, beside, 0.0))
        return Proposal(np.asarray(fires & (lacks | is_behind), np.bool_), value)


class ThreadsToNeed(ThreadsUp):
    """P4 after two ticks, where the work that comes needs more threads, were there cores enough."""

    window_s = SOON_S
    rests_on: tuple[Resource, ...] = ()
    after: tuple[Resource, ...] = ()
    most_s = MOST_S

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Set the threads to the need; where nothing tells it, wait as long as P4 does."""
        found = super().propose(seen.last(ThreadsUp.window_s), limits)
        needed = threads_needed(seen, limits)
        with np.errstate(invalid="ignore"):
            return Proposal(found.fires & (needed > seen.ticks.threads[-1]), np.fmax(found.value, needed))


class HeapDownSoon(HeapDown):
    """P5 once what is committed and collected grows no more."""

    window_s = LEAST_S
    rests_on: tuple[Resource, ...] = ()
    most_s = MOST_S

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """As P5."""
        limits = _whatever_waits(limits)
        found = super().propose(seen, limits)
        parts = _halves(seen.last(LEAST_S))
        sizes = [super(HeapDownSoon, self).propose(part, limits).value for part in parts]
        garbage = [part.ticks.gc.max(axis=0) for part in parts]
        return Proposal(found.fires & _steady(seen, sizes) & _steady(seen, garbage), found.value)


class MemoryDownSoon(MemoryDown):
    """P6 once what is resident grows no more; never below the heap that there will be."""

    window_s = LEAST_S
    rests_on: tuple[Resource, ...] = ()
    most_s = MOST_S

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """As P6."""
        limits = _whatever_waits(limits)
        found = super().propose(seen, limits)
        peaks = [likely_resident(part.ticks) for part in _halves(seen.last(LEAST_S))]
        # Where the heap is in the way of a smaller memory, it goes first, or both go at once.
        is_free = likely_resident(seen.ticks) * (1 + limits.margin) >= seen.heap
        is_free |= np.full(len(is_free), seen.length_s >= MOST_S)
        return Proposal(found.fires & is_free & _steady(seen, peaks), found.value)


class CpuDownSoon(CpuDown):
    """P7 once the peak was seen twice."""

    window_s = PEAK_S
    rests_on: tuple[Resource, ...] = ()
    after: tuple[Resource, ...] = ()
    renews = False
    most_s = MOST_S

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """As P7."""
        found = super().propose(seen, limits)
        peaks = [cores_needed(part, limits, limits.margin) for part in _halves(seen)]
        return Proposal(found.fires & _twice(seen, limits, peaks), found.value)


class ThreadsDownSoon(ThreadsDown):
    """P8 once the peak was seen twice, with another action: idle threads take nothing that were worth a restart."""

    rides = True
    window_s = PEAK_S
    rests_on: tuple[Resource, ...] = ()
    after: tuple[Resource, ...] = ()
    renews = False
    most_s = MOST_S

    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """As P8."""
        found = super().propose(seen, limits)
        peaks = [threads_needed(part, limits) for part in _halves(seen)]
        return Proposal(found.fires & _twice(seen, limits, peaks), found.value)


AT_ONCE: Sequence[Rule] = (
    HeapUpSoon(),
    MemoryUpSoon(),
    CpuToNeed(),
    ThreadsToNeed(),
    HeapDownSoon(),
    MemoryDownSoon(),
    CpuDownSoon(),
    ThreadsDownSoon(),
)
"""By priority, which decides where one rests on what another changes."""


def _whatever_waits(limits: Limits) -> Limits:
    """Return the limits for memory: rows that wait for cores or threads take more of it, if any, never less."""
    return replace(limits, idle_backlog_s=inf)


def _halves(seen: Look) -> tuple[Look, Look]:
    return seen.part(0.0, 0.5), seen.part(0.5, 1.0)


def _steady(seen: Look, peaks: Sequence[Floats]) -> Bools:
    """Tell where the second half's peak is no higher than the first one's, or the window is as long as it gets."""
    if seen.length_s >= MOST_S:
        return np.ones(len(peaks[0]), np.bool_)
    with np.errstate(invalid="ignore"):
        return np.asarray(peaks[1] <= (1 + STEADY) * peaks[0], np.bool_)


def _twice(seen: Look, limits: Limits, peaks: Sequence[Floats]) -> Bools:
    """Tell where the window's halves have the same peak but for the margin, or the window is as long as it gets."""
    least, most = np.minimum(*peaks), np.maximum(*peaks)
    if seen.length_s >= MOST_S:
        return np.ones(len(least), np.bool_)
    with np.errstate(invalid="ignore"):
        return np.asarray(most <= (1 + limits.margin) * least, np.bool_)
