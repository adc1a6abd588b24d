"""The sizing policies of Sage in their order of priority (Sage, Table 1 and 4; papers.md 6.1). Called by `sage`.

Each rule looks at its own window of all applications and says for which of them it would change which resource to what.
Growth is multiplicative, a shrink goes to the measured peak at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.scheduler.observations import Observed, Window


class Resource(IntEnum):
    """What an application is given."""

    HEAP = 0
    MEMORY = 1
    CORES = 2
    THREADS = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that rules share.

    ``growth``: factor of an increase. ``margin``: kept above a measured peak. ``up`` and ``down``: use of an
    allocation, in [0, 1], above which it grows and below which, margin included, it shrinks. ``gc``: share of
    the CPU used, never of less than one core's time. ``throttled``: share of the threads' time. ``disk_io``: bytes/s of
    local state that say memory is short. ``idle_backlog_s``: a backlog worth so many seconds of input counts as none.
    ``settle_s``: so long after an action or a restart backlogs and peaks are those of catching up, and do not count.
    """

    growth: float = 1.5
    margin: float = 0.12
    up: float = 0.92
    down: float = 0.8
    gc: float = 0.1
    throttled: float = 0.05
    disk_io: float = 50e6
    idle_backlog_s: float = 1.0
    settle_s: float = 300.0

    def __post_init__(self) -> None:
        if self.growth <= 1 or self.margin < 0:
            raise ValueError("growth is above 1 and margin is not below 0")
        if self.up <= 1 / (1 + self.margin):
            raise ValueError(
                f"up = {self.up} must be above 1 / (1 + margin) = {1 / (1 + self.margin):.3f}: "
                "what was shrunk to its peak would grow again at once"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """For which applications a rule fires, and the resource's new value there."""

    fires: Bools
    value: Floats


class Rule(ABC):
    """One policy. ``after``: growth of these resources makes its window begin anew, as any change of its own does."""

    name: str
    resource: Resource
    window_s: float
    needs: tuple[str, ...]
    after: tuple[Resource, ...]

    @abstractmethod
    def propose(self, window: Observed, limits: Limits) -> Proposal:
        """Say what to change; figures of ``needs`` are there for every application that counts."""


class HeapUp(Rule):
    """P1: the heap is full, or collecting garbage takes too long. It grows inside the memory only."""

    name, resource, window_s = "heap up", Resource.HEAP, 300.0
    needs = ("heap", "memory", "heap_used", "gc")
    after = (Resource.HEAP,)

    def propose(self, window: Observed, limits: Limits) -> Proposal:
        """Multiply the heap, up to the memory."""
        heap, memory = window.heap[-1], window.memory[-1]
        short = _heap_is_short(window, limits)
        return Proposal(short & (heap < memory), np.minimum(heap * limits.growth, memory))


class MemoryUp(Rule):
    """P2: memory is full, something was killed for it, state is read from disk too much, or the heap fills it all."""

    name, resource, window_s = "memory up", Resource.MEMORY, 300.0
    needs = ("memory", "resident", "kills", "disk_io")
    after = (Resource.HEAP, Resource.MEMORY)

    def propose(self, window: Observed, limits: Limits) -> Proposal:
        """Multiply the memory."""
        memory = window.memory[-1]
        full = _over(window.resident, window.memory, limits.up) | (np.nansum(window.kills, axis=0) > 0)
        paged = np.nanmean(window.disk_io, axis=0) > limits.disk_io
        pressed = _heap_is_short(window, limits) & (window.heap[-1] >= memory)
        return Proposal(full | paged | pressed, memory * limits.growth)


class CpuUp(Rule):
    """P3: the cores are used up, or the application was throttled and rows had to wait for it."""

    name, resource, window_s = "CPU up", Resource.CORES, 300.0
    needs = ("cores", "cpu", "throttled")
    after = (Resource.HEAP, Resource.MEMORY, Resource.CORES)

    def propose(self, window: Observed, limits: Limits) -> Proposal:
        """Multiply the cores. Where nobody knows the backlog, throttling is no reason."""
        throttled = (window.throttled.mean(axis=0) > limits.throttled) & _waited(window, limits)
        return Proposal(_over(window.cpu, window.cores, limits.up) | throttled, window.cores[-1] * limits.growth)


class ThreadsUp(Rule):
    """P4: the backlog rises all the time, and no remote service explains it."""

    name, resource, window_s = "parallelism up", Resource.THREADS, 600.0
    needs = ("threads", "backlog", "consumed", "appended")
    after = tuple(Resource)

    def propose(self, window: Observed, limits: Limits) -> Proposal:
        """Set the threads to what the input needs at today's rate per busy thread (DS2); at least multiply them."""
        rising = np.all(np.diff(window.backlog, axis=0) > 0, axis=0) & (len(window.backlog) > 2)
        threads, consumed = window.threads[-1], window.consumed.mean(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            needed = np.ceil(threads * window.appended.mean(axis=0) / consumed * (1 + limits.margin))
        multiplied = np.ceil(threads * limits.growth)
        return Proposal(rising, np.where(np.isfinite(needed) & (needed > threads), needed, multiplied))


class HeapDown(Rule):
    """P5: more heap than was ever committed, and than keeps collections rare enough not to ask for more at once."""

    name, resource, window_s = "heap down", Resource.HEAP, 1800.0
    needs = ("heap", "heap_committed", "heap_used", "gc", "backlog", "consumed")
    after = (Resource.HEAP,)

    def propose(self, window: Observed, limits: Limits) -> Proposal:
        """Set the heap to what was committed, and the margin; free heap no smaller than bounds of P1 allow.

        H' >= L + (H - L) x G (1 + margin) / gc

        L: live heap; G: part of the time in which garbage was collected, which goes as 1 / (H - L); gc: its bound.
        """
        free = window.heap - window.heap_used
        keeps = window.heap_used + free * window.gc * (1 + limits.margin) / limits.gc
        least = np.maximum(window.heap_committed.max(axis=0), keeps.max(axis=0) / (1 + limits.margin))
        return _down(least, window.heap[-1], window, limits)


class MemoryDown(Rule):
    """P6: more memory than was ever resident, if all committed heap had been."""

    name, resource, window_s = "memory down", Resource.MEMORY, 1800.0
    needs = ("memory", "resident", "heap_used", "heap_committed", "heap", "backlog", "consumed")
    after = (Resource.HEAP, Resource.MEMORY)

    def propose(self, window: Observed, limits: Limits) -> Proposal:
        """Set the memory to the likely resident size, and the margin; never below the heap."""
        outside = np.maximum(window.resident - window.heap_committed, 0.0).max(axis=0)
        peak = np.maximum(window.resident.max(axis=0), window.heap_committed.max(axis=0) + outside)
        least = np.maximum(peak, window.heap[-1] / (1 + limits.margin))
        return _down(least, window.memory[-1], window, limits)


class CpuDown(Rule):
    """P7: more cores than were ever used."""

    name, resource, window_s = "CPU down", Resource.CORES, 1800.0
    needs = ("cores", "cpu", "backlog", "consumed")
    after = (Resource.HEAP, Resource.CORES)

    def propose(self, window: Observed, limits: Limits) -> Proposal:
        """Set the cores to the peak, and the margin."""
        return _down(_settled(window.cpu, window, limits).max(axis=0), window.cores[-1], window, limits)


class ThreadsDown(Rule):
    """P8: more threads than were ever busy."""

    name, resource, window_s = "parallelism down", Resource.THREADS, 1800.0
    needs = ("threads", "busy_threads", "backlog", "consumed")
    after = (Resource.CORES, Resource.THREADS)

    def propose(self, window: Observed, limits: Limits) -> Proposal:
        """Set the threads to the peak, and the margin; at least one."""
        found = _down(_settled(window.busy_threads, window, limits).max(axis=0), window.threads[-1], window, limits)
        value = np.maximum(np.ceil(found.value), 1.0)
        return Proposal(found.fires & (value < window.threads[-1]), value)


RULES: Sequence[Rule] = (
    HeapUp(),
    MemoryUp(),
    CpuUp(),
    ThreadsUp(),
    HeapDown(),
    MemoryDown(),
    CpuDown(),
    ThreadsDown(),
)
"""By priority, the first first. No window is shorter than that of a rule before it."""


def _over(used: Window, given: Window, share: float) -> Bools:
    return np.asarray((used / given).mean(axis=0) > share, np.bool_)


def _heap_is_short(window: Observed, limits: Limits) -> Bools:
    """Tell where the heap is full or garbage is collected too long; no where heaps were not measured."""
    full = (window.heap_used / window.heap).mean(axis=0) > limits.up
    return np.asarray(full | (window.gc.mean(axis=0) > limits.gc), np.bool_)


def _waited(window: Observed, limits: Limits) -> Bools:
    """Tell where a backlog was once worth more than a moment of input, other than just after an action."""
    behind = window.backlog > limits.idle_backlog_s * window.consumed
    return np.asarray((behind & (window.settled_s >= limits.settle_s)).any(axis=0), np.bool_)


def _idle(window: Observed, limits: Limits) -> Bools:
    """Tell where no rows waited, the last tick included: whatever was caught up with before is done with."""
    return np.asarray(~_waited(window, limits) & (window.settled_s[-1] >= limits.settle_s), np.bool_)


def _settled(values: Window, window: Observed, limits: Limits) -> Window:
    """Return values, nothing in place of those from just after an action."""
    return np.where(window.settled_s >= limits.settle_s, values, 0.0)


def _down(peak: Floats, given: Floats, window: Observed, limits: Limits) -> Proposal:
    value = peak * (1 + limits.margin)
    return Proposal(np.asarray(_idle(window, limits) & (value < limits.down * given) & (value > 0), np.bool_), value)
