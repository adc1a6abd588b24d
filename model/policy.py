"""The contract of controllers: a pure function from a snapshot and a memory to a decision and a memory.

The same object runs in the simulated cluster and over recorded snapshots (docs/design/controllers.md 2); it has no
clock, and any randomness derives from its memory.
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
        """Return the memory before the first snapshot: a frozen value."""

    @abstractmethod
    def decide(self, snapshot: ClusterSnapshot, memory: Memory) -> tuple[Decision, Memory]:
        """Return the decision and the new memory; equal arguments give equal results.

        A figure that is needed and was not measured gives `NoChange`, made by `not_measured`: its reason begins so.
        """
