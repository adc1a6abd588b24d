"""Policies as users write them: who sheds, who places, and who decides on what it may not."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.model.plan import Decision, Move, Placement, ShedPlan
from penstock.model.snapshot import ClusterSnapshot

HERE = __name__
"""What the names of these policies begin with, up to the colon."""


@dataclass(frozen=True)
class KeepShare:
    """Who keeps a share of every query, and wants to move an instance, on which it does not decide."""

    owns: ClassVar[tuple[str, ...]] = ("keep rates",)
    share: float = 0.5

    def start(self) -> int:
        return 0

    def decide(self, snapshot: ClusterSnapshot, memory: int) -> tuple[Decision, int]:
        share = (self.share,) * len(snapshot.queries.name)
        there = len(snapshot.machines) - 1
        return ShedPlan({}, {}, share, "a share is kept", moves=(Move(0, there),)), memory + 1


@dataclass(frozen=True)
class OnOne:
    """Who lets all instances start on one machine, by its number."""

    owns: ClassVar[tuple[str, ...]] = ("places of starting instances",)
    machine: int = 0

    def start(self) -> None:
        return None

    def decide(self, snapshot: ClusterSnapshot, memory: None) -> tuple[Decision, None]:
        waiting = np.flatnonzero(~snapshot.instances.is_running).tolist()
        return Placement(tuple(Move(instance, self.machine) for instance in waiting), "all on one"), None


@dataclass(frozen=True)
class Everything(OnOne):
    """Who decides on too much for any of these."""

    owns: ClassVar[tuple[str, ...]] = ("places of starting instances", "keep rates", "parallelism")
