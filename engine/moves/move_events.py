"""Events and commands of the coordinator of moves: frozen values. Instances are named as `Instance.name` names them."""

from dataclasses import dataclass

from penstock.engine.core.elements import Reroute
from penstock.model.ids import TaskId


@dataclass(frozen=True, slots=True)
class MoveWanted:
    """Key groups are to change their owners: of each its number, who gives it and who takes it.

    ``tasks`` are the tasks that move together, by id and name; ``ended`` those of their instances that have ended.
    """

    task: TaskId
    groups: tuple[tuple[int, int, int], ...]
    tasks: tuple[tuple[TaskId, str], ...]
    ended: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MarkersSent:
    """So many producers have sent the marker of a move: all of the tasks' that had not ended."""

    move: int
    producers: int


@dataclass(frozen=True, slots=True)
class StateGiven:
    """One instance of a task has given another what it holds of the groups, which is on its way."""

    move: int
    task: str
    giver: int
    taker: int


@dataclass(frozen=True, slots=True)
class StateInstalled:
    """The other instance goes on with it."""

    move: int
    task: str
    giver: int
    taker: int


@dataclass(frozen=True, slots=True)
class InstanceLeft:
    """An instance has ended; if it has not given anything by then it never will: no marker came before its end."""

    instance: str


@dataclass(frozen=True, slots=True)
class TasksFailed:
    """Tasks are taken down; they begin anew from a checkpoint, with the owners of its manifest."""

    tasks: frozenset[TaskId]
    reason: str


MoveEvent = MoveWanted | MarkersSent | StateGiven | StateInstalled | InstanceLeft | TasksFailed


@dataclass(frozen=True, slots=True)
class HoldBarriers:
    """Let no barrier be sent from here on: no checkpoint may contain a bucket that is on its way."""


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Let every producer of these tasks that does not move with them, and has not ended, send the marker.

    So do sources among the tasks themselves. Answer: MarkersSent.
    """

    reroute: Reroute
    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class LetBarriersGo:
    """Barriers may be sent again."""


@dataclass(frozen=True, slots=True)
class MoveDone:
    """The groups have their new owners, in all tasks that move together and had not ended."""

    reroute: Reroute


@dataclass(frozen=True, slots=True)
class MoveFailed:
    """The move is void: the groups have the owners of the checkpoint from which their tasks begin anew."""

    reroute: Reroute
    reason: str


MoveCommand = HoldBarriers | SendMarkers | LetBarriersGo | MoveDone | MoveFailed
