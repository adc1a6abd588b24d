"""What every controller is: a pure function from a snapshot, and what it remembers, to a decision.

The same object runs in the simulated cluster and over recorded snapshots (docs/design/controllers.md 2); it has no
clock, and draws nothing that its memory does not say.
"""

from abc import abstractmethod
from typing import Protocol, TypeVar

from penstock.model.plan import Decision
from penstock.model.snapshot import ClusterSnapshot

Memory = TypeVar("Memory")


class Policy(Protocol[Memory]):
    """Decides; frozen, its fields are its parameters."""

    @abstractmethod
    def start(self) -> Memory:
        """Return what is remembered before the first snapshot: a frozen value."""

    @abstractmethod
    def decide(self, snapshot: ClusterSnapshot, memory: Memory) -> tuple[Decision, Memory]:
        """Return what to do now, and what to remember; the same arguments always give the same.

        A figure that is needed and was not measured gives `NoChange`, whose reason begins with "not measured".
        """
