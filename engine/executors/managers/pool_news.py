"""What is heard of the task managers of a run."""

from dataclasses import dataclass

from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.watch import Stuck, WellAgain


@dataclass(frozen=True, slots=True)
class Said:
    """A task manager has said something."""

    manager: str
    message: ms.ToHead


@dataclass(frozen=True, slots=True)
class Lost:
    """A task manager is lost: nothing that it says counts any more, and its process is gone."""

    manager: str
    reason: str


News = Said | Lost | Stuck | WellAgain
