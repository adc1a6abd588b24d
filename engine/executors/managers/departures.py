"""Departures of task managers that were told to end: a checkpoint, and then their work begins elsewhere.

So nothing is read again but what came behind that checkpoint. Pure; `ManagerChanges` does what is said.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

SETTLE_NS = 500_000_000
"""How long it is awaited whether the head was told to end as well: then the job stops in order, and nothing moves."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint is to be taken, for a task manager is to go behind it."""

    manager: str


@dataclass(frozen=True, slots=True)
class Restart:
    """What a task manager hosts is to begin elsewhere, from the checkpoint."""

    manager: str


@dataclass(frozen=True, slots=True)
class Release:
    """A task manager hosts nothing, and may go."""

    manager: str


Step = Checkpoint | Restart | Release


class Departures:
    """The task managers of one attempt that are about to go, and how far that is."""

    def __init__(self) -> None:
        """Begin with none."""
        # The last checkpoint that had begun before one was asked for; None once the restart is ordered.
        self._begun: dict[str, int | None] = {}

    def look(
        self, leaving: Mapping[str, int], hosting: Collection[str], begun: int, committed: int, now_ns: int
    ) -> list[Step]:
        """Return what is to be done now for those that are ``leaving``, by when they were told to.

        ``hosting`` are all that host an instance; ``begun`` and ``committed`` the last checkpoints of which this holds.
        """
        self._begun = {name: epoch for name, epoch in self._begun.items() if name in leaving}
        steps: list[Step] = []
        for name, order_ns in leaving.items():
            if name not in hosting:
                steps.append(Release(name))
            elif name not in self._begun:
                if now_ns - order_ns >= SETTLE_NS:
                    self._begun[name] = begun
                    steps.append(Checkpoint(name))
            elif (since := self._begun[name]) is not None and committed > since:
                self._begun[name] = None
                steps.append(Restart(name))
        return steps
