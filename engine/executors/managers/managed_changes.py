"""What changes in one attempt while it runs: the owners of key groups, and the numbers of instances."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import CutTaken
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.managed_growth import ManagedGrowth
from penstock.engine.executors.managers.managed_moves import ManagedMoves
from penstock.engine.executors.managers.managed_partitions import ManagedPartitions
from penstock.engine.executors.managers.places import Places
from penstock.engine.executors.managers.retired import Retired
from penstock.engine.jobs.adoption import Adopt
from penstock.engine.jobs.attempt import AttemptContext, LiveDone, Struck
from penstock.engine.jobs.metrics import InstanceMetrics, JobMetrics
from penstock.engine.moves.held_state import HeldState, StateBytes
from penstock.engine.moves.live_changes import LiveChange
from penstock.engine.moves.under_way import key_group_counts
from penstock.model.execution_graph import ExecutionGraph, instance_name
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners

BeginAdopted = Callable[[AttemptStart, Sequence[CutTaken]], None]


class ManagedChanges:
    """Moves, and changes of parallelism, which need them. It belongs to the thread that runs the attempt."""

    def __init__(
        self,
        head: Head,
        deployments: Deployments,
        context: AttemptContext,
        come_to: Callable[[ExecutionGraph], None],
        state_bytes: StateBytes,
        retired: Retired,
    ) -> None:
        """Begin without one; ``come_to`` lets everything else of the attempt go by another plan from now on.

        ``state_bytes`` returns how much state some operators, by name, have at a task manager; ``retired`` are those
        that have left.
        """
        self._partitions = ManagedPartitions(head, deployments, context)
        self._moves = ManagedMoves(head, deployments, context, state_bytes, self._partitions)
        self._growth = ManagedGrowth(head, deployments, self._moves, self._partitions, context, self._come_to, retired)
        self._others_come_to, self._clock = come_to, context.clock
        context.moves.held = self._held

    @property
    def due_ns(self) -> int | None:
        """When something takes too long; None: nothing is under way."""
        times = (self._moves.due_ns, self._partitions.due_ns)
        return min((time_ns for time_ns in times if time_ns is not None), default=None)

    @property
    def owners(self) -> Mapping[TaskId, Owners]:
        """Who has the key groups of each task that is up."""
        return self._moves.owners

    def began(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        """Instances of these tasks were built."""
        self._moves.began(tasks, start.restored)
        self._growth.began(tasks, start.attempt)

    def adopting(self, order: Adopt, start: AttemptStart, begin: BeginAdopted) -> BeginAdopted:
        """Instances of another head go on; return ``begin``, which then takes in as well which of them have ended."""
        self._moves.adopted(order.deployments, start.restored)
        self._growth.began({task for item in order.deployments for task in item.tasks}, start.attempt)

        def begin_behind(behind: AttemptStart, cuts: Sequence[CutTaken]) -> None:
            for cut in cuts:
                if cut.ended:
                    self.ended(cut.instance)
            begin(behind, cuts)

        return begin_behind

    def shown(self, metrics: JobMetrics, places: Places) -> JobMetrics:
        """Return metrics with where instances are, what they have, and what moves; from any thread.

        A task manager that an instance has left may say its last figures yet, beside those of where it is.
        """
        graph = self._moves.graph
        counts = key_group_counts(graph, dict(self._moves.owners))
        there = {name for task in graph.tasks for name in graph.instances(task)}
        latest: dict[str, InstanceMetrics] = {}
        for item in metrics.instances:
            name = instance_name(item.task, item.instance)
            known = latest.get(name)
            if name in there and (known is None or item.time.wall_ns < known.time.wall_ns):
                latest[name] = item
        instances = tuple(
            replace(
                item,
                task_manager=places.get(name),
                key_groups=counts(item.task, item.instance),
            )
            for name, item in latest.items()
        )
        change = self._growth.under_way() or self._moves.under_way()
        return replace(metrics, instances=instances, moves=self._moves.totals(), change=change)

    def note_rows(self, rows: int) -> None:
        """Take in how many rows all sources have read."""
        self._moves.rates.note(self._clock.monotonic_ns(), rows)

    def ended(self, instance: str) -> None:
        """An instance has ended."""
        self._moves.ended(instance)
        self._growth.ended(instance)

    def gone(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """Tasks (None: all) are taken down."""
        self._partitions.gone(tasks)
        self._moves.gone(tasks, error)
        self._growth.gone(tasks)

    def begin(self, change: LiveChange | None, done: Callable[[LiveDone], None]) -> ExecutionGraph | None:
        """Begin to come to another plan; see `Attempt.change_live`."""
        return self._growth.begin(change, done)

    def vacate(self, managers: Sequence[str]) -> str | None:
        """Let task managers go while the job runs; see `ManagedGrowth.vacate`."""
        return self._growth.vacate(managers)

    def hear(self, manager: str, message: ms.ToHead) -> bool:
        """Take in what a task manager says; return whether that is all of it."""
        match message:
            case ms.CutTaken(instance=instance, ended=True):
                self.ended(instance)
                return False
            case ms.Deployed() | ms.Refused() | ms.ChannelsJoined():
                return self._growth.hear(manager, message)
            case ms.MarkersSent() | ms.StateGiven() | ms.StateInstalled():
                self._moves.hear(message)
                return True
            case ms.PartitionsHeld() | ms.PartitionsStopped() | ms.PartitionsGiven() | ms.PartitionsTaken():
                self._partitions.hear(manager, message)
                return True
        return False

    def turn(self) -> Struck | None:
        """Take the next steps that are due; return what strikes the job."""
        return self._partitions.turn() or self._growth.turn() or self._moves.turn()

    def _held(self) -> HeldState:
        return self._growth.held()

    def _come_to(self, graph: ExecutionGraph) -> None:
        self._moves.graph = graph
        self._others_come_to(graph)
