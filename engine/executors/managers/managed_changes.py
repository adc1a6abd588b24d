"""What changes in one attempt while it runs: the owners of key groups, and the numbers of instances."""

from collections.abc import Callable

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.managed_growth import ManagedGrowth
from penstock.engine.executors.managers.managed_moves import ManagedMoves
from penstock.engine.jobs.attempt import AttemptContext, LiveDone, Struck
from penstock.engine.moves.live_changes import LiveChange
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId


class ManagedChanges:
    """Moves, and changes of parallelism, which need them. It belongs to the thread that runs the attempt."""

    def __init__(
        self,
        head: Head,
        deployments: Deployments,
        context: AttemptContext,
        come_to: Callable[[ExecutionGraph], None],
        *,
        may_move: bool,
    ) -> None:
        """Begin without one; ``come_to`` lets everything else of the attempt go by another plan from now on."""
        self._moves = ManagedMoves(head, deployments, context, may_move=may_move)
        self._growth = ManagedGrowth(head, deployments, self._moves, context, self._come_to)
        self._others_come_to = come_to

    @property
    def due_ns(self) -> int | None:
        """When something takes too long; None: nothing is under way."""
        return self._moves.due_ns

    def began(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        """Instances of these tasks were built."""
        self._moves.began(tasks, start.restored)
        self._growth.began(tasks, start.attempt)

    def gone(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """Tasks (None: all) are taken down."""
        self._moves.gone(tasks, error)
        self._growth.gone(tasks)

    def begin(self, change: LiveChange, done: Callable[[LiveDone], None]) -> bool:
        """Begin to come to another plan; see `Attempt.change_live`."""
        return self._growth.begin(change, done)

    def hear(self, manager: str, message: ms.ToHead) -> bool:
        """Take in what a task manager says; return whether that is all of it."""
        match message:
            case ms.CutTaken(instance=instance, ended=True):
                self._moves.ended(instance)
                self._growth.ended(instance)
                return False
            case ms.Deployed() | ms.Refused() | ms.ChannelsJoined():
                return self._growth.hear(manager, message)
            case ms.MarkersSent() | ms.StateGiven() | ms.StateInstalled():
                self._moves.hear(message)
                return True
        return False

    def turn(self) -> Struck | None:
        """Take the next steps that are due; return what strikes the job."""
        return self._growth.turn() or self._moves.turn()

    def _come_to(self, graph: ExecutionGraph) -> None:
        self._moves.graph = graph
        self._others_come_to(graph)
