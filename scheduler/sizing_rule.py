"""Common parts of Sage's sizing rules: resources, limits, proposals. Called by `growth_rules`, `shrink_rules`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from math import inf

from penstock.model.columns import Bools, Floats
from penstock.scheduler.rule_window import RuleWindow


class Resource(IntEnum):
    """A resource that is allocated to applications."""

    HEAP = 0
    MEMORY = 1
    CORES = 2
    THREADS = 3


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """Limits that all rules share.

    ``growth``: factor of an increase. ``margin``: share added to a measured peak. ``up`` and ``down``: use of an
    allocation, in [0, 1], above which it grows and below which, margin included, it shrinks. ``gc``: share of
    the CPU used, never of less than one core's time. ``throttled``: share of the threads' time. ``disk_io``: bytes/s of
    local state that say memory is short. ``idle_backlog_s``: a backlog worth so many seconds of input, which the bound
    of latency allows, counts as none. ``settle_s``: so long after an action or a restart backlogs and peaks are those
    of catching up, and do not count. ``catch_up_s``: in so long a backlog is to be made up for. ``idle_s``: so long
    before a shrink no rows wait, at most its window. ``only_rising``: a backlog beyond the bound is no reason for
    threads, only one that rises all the time, as the paper has it. ``windows``: the length of windows, as a part of
    what rules say.
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
    windows: float = 1.0

    def __post_init__(self) -> None:
        if self.growth <= 1 or self.margin < 0:
            raise ValueError("growth is above 1 and margin is not below 0")
        if self.up <= 1 / (1 + self.margin):
            raise ValueError(
                f"up = {self.up} must be above 1 / (1 + margin) = {1 / (1 + self.margin):.3f}: "
                "what was shrunk to its peak would grow again at once"
            )


@dataclass(frozen=True, slots=True, eq=False)
class SizingProposal:
    """The applications for which a rule fires, and the resource's new value for each."""

    fires: Bools
    value: Floats


class Rule(ABC):
    """One sizing rule. ``after``: growth of these resources restarts its window, as a change of its own does.

    ``window_s``: its shortest window. ``most_s``: its longest window, where the history allows. ``rests_on``: resources
    on which its evidence depends, so it waits where a rule before it changes one of them.
    """

    name: str
    resource: Resource
    window_s: float
    needs: tuple[str, ...]
    after: tuple[Resource, ...]
    rests_on: tuple[Resource, ...] = tuple(Resource)
    renews: bool = True
    """Whether a change of its own resource restarts its window."""
    rides: bool = False
    """Whether it acts only together with another rule."""
    goes_first: bool = False
    """Whether rules behind it that rest on its resource wait where its last tick asks for more and its window does not
    yet: what it is about to see explains what they see."""

    @property
    def most_s(self) -> float:
        """Return the length of the longest window."""
        return self.window_s

    @abstractmethod
    def propose(self, window: RuleWindow, limits: RuleLimits) -> SizingProposal:
        """Return the proposal; applications without all figures of ``needs`` are ignored."""
