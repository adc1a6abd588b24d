"""Messages of a move between the head and its task managers; what is handed over goes by their links."""

from penstock.engine.core.elements import Reroute
from penstock.engine.executors.managers.adoption_messages import Message
from penstock.model.ids import TaskId


class SendMarkers(Message, frozen=True):
    """To all task managers of a deployment: a round of a move begins. Answer: `MarkersSent`.

    These ``producers``, maybe none, switch the owners and send the marker. ``groups`` has of each key group its number,
    giver and taker; ``task`` is the first of those that move together.
    """

    deployment: int
    move: int
    task: int
    groups: tuple[tuple[int, int, int], ...]
    producers: tuple[str, ...]

    def reroute(self) -> Reroute:
        """Return the marker."""
        return Reroute(self.move, TaskId(self.task), self.groups)


class SetRoutes(Message, frozen=True):
    """To a task manager: let instances get these shares of rows that may go to any, by operator; in turns without.

    They hold for what is deployed later, too.
    """

    shares: dict[str, tuple[float, ...]]


class RoundOver(Message, frozen=True):
    """To all task managers of a deployment: all state of this move goes on at its new owners."""

    deployment: int
    move: int


class MarkersSent(Message, frozen=True):
    """So many of the producers had not ended, and have sent the marker of a move."""

    move: int
    producers: int


class StateGiven(Message, frozen=True):
    """An instance has given another of its task what it holds of the key groups, of so many bytes; it is on its way."""

    move: int
    task: str
    giver: int
    taker: int
    bytes: int


class StateInstalled(Message, frozen=True):
    """The instance that takes it goes on with it; see `Installed`."""

    move: int
    task: str
    giver: int
    taker: int
    buckets: int
    paused_ns: int


OfMoves = MarkersSent | StateGiven | StateInstalled
"""What a task manager says of a move."""

ToMovers = SendMarkers | RoundOver
"""What it is told of one."""
