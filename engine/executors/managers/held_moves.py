"""What moves have made of a deployment's owners, as each of its task managers knows it: a head that follows asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.engine.executors.managers.move_messages import SendMarkers
from penstock.engine.restore.key_group_owners import coupled_tasks
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners, moved

UNDER_WAY = "a move of key groups was under way"
HANDS_OVER = "partitions of a source were about to change their instances"


@dataclass(slots=True)
class HeldMoves:
    """The last move of a deployment, whether it is under way, and the owners of tasks of which key groups have moved.

    ``built`` are the owners of each task when it was built. A source here ``hands over`` partitions, or takes some.
    """

    graph: ExecutionGraph
    built: Mapping[TaskId, Owners]
    last: int = 0
    is_under_way: bool = False
    hands_over: bool = False
    owners: dict[TaskId, Owners] = field(default_factory=dict)

    @property
    def fault(self) -> str | None:
        """Why no other head may go on with the deployment, None: it may."""
        if self.is_under_way:
            return UNDER_WAY
        return HANDS_OVER if self.hands_over else None

    def begin(self, order: SendMarkers) -> None:
        """A round begins: from its markers on, key groups have other owners."""
        self.last, self.is_under_way = order.move, True
        lead = TaskId(order.task)
        for task in next(tasks for tasks in coupled_tasks(self.graph) if lead in tasks):
            self.owners[task] = moved(self.owners.get(task, self.built[task]), order.groups)

    def end(self, move: int) -> None:
        """A round is over."""
        self.is_under_way = self.is_under_way and self.last != move

    def said(self) -> dict[int, tuple[int, ...]]:
        """Return the owners of the key groups of each task of which some have moved."""
        return {task: tuple(owners.tolist()) for task, owners in self.owners.items()}
