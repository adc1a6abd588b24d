"""What is heard of the task managers of a run."""

from dataclasses import dataclass

from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.watch import Stuck, WellAgain


@dataclass(frozen=True, slots=True)
class Said:
    """A task manager has said something."""

    manager: str
    message: ms.ToHead


LEFT = "it has left, as it was told to end"


@dataclass(frozen=True, slots=True)
class Lost:
    """A task manager is lost: nothing that it says counts any more, and its process is gone.

    ``in_order``: it was told that it may go, as it hosted nothing.
    """

    manager: str
    reason: str
    in_order: bool = False


News = Said | Lost | Stuck | WellAgain
