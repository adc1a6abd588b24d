"""What the sizing policies of Sage have in common: resources, bounds, proposals. Called by `growing`, `shrinking`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from math import inf

from penstock.model.columns import Bools, Floats
from penstock.scheduler.looks import Look


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
    local state that say memory is short. ``idle_backlog_s``: a backlog worth so many seconds of input, which the bound
    of latency allows, counts as none. ``settle_s``: so long after an action or a restart backlogs and peaks are those
    of catching up, and do not count. ``catch_up_s``: in so long a backlog is to be made up for. ``idle_s``: so long
    before a shrink no rows wait, at most its window. ``only_rising``: a backlog beyond the bound is no reason for
    threads, only one that rises all the time, as the paper has it.
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
    catch_up_s: float = 1800.0
    idle_s: float = inf
    only_rising: bool = False

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
    """One policy. ``after``: growth of these resources makes its window begin anew, as a change of its own does.

    ``window_s``: so long it looks before it acts. ``most_s``: so long it looks where there is more. ``rests_on``: what
    it sees would be different if these changed, so it waits where a rule before it changes one of them.
    """

    name: str
    resource: Resource
    window_s: float
    needs: tuple[str, ...]
    after: tuple[Resource, ...]
    rests_on: tuple[Resource, ...] = tuple(Resource)
    renews: bool = True
    """Whether a change of its own resource makes its window begin anew."""
    rides: bool = False
    """Whether it acts only where another rule does."""

    @property
    def most_s(self) -> float:
        """Return how far it looks back."""
        return self.window_s

    @abstractmethod
    def propose(self, seen: Look, limits: Limits) -> Proposal:
        """Say what to change; figures of ``needs`` are there for every application that counts."""
