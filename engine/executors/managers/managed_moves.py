"""Moves of a job on task managers, as its head carries them out: one order at a time, in rounds of some key groups."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.jobs.attempt import AttemptContext, Struck
from penstock.engine.moves import move_events as ev
from penstock.engine.moves.movable import marker_senders, takers, together
from penstock.engine.moves.move_coordinator import MoveCoordinator
from penstock.engine.moves.move_orders import AskedMove, MoveOrder, MoveSummary
from penstock.engine.moves.wanted_moves import Groups, round_groups, wanted_move
from penstock.engine.restore.key_group_owners import owner_tables
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import OptionError, PenstockError, RetryableError, WorkerLostError
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners, moved

ROUND_NS = 60_000_000_000
"""How long a round of a move may take before its region begins anew."""

NOT_ON_RAY = "on Ray nothing moves: a head that follows a lost one would not know who owns what has moved"

NO_CHECKPOINTS = (
    "a job without checkpoints does not move: one that fails meanwhile would be lost. Run it with checkpoint_dir=..."
)


@dataclass(slots=True)
class _Order:
    """An order that is carried out: what is left of it, and what its rounds have taken."""

    asked: AskedMove
    lead: TaskId
    left: Groups
    began_ns: int
    groups: int = 0
    state_bytes: int = 0
    rounds_ns: list[int] = field(default_factory=list)


class ManagedMoves:
    """The moves of one attempt. It belongs to the thread that runs it."""

    def __init__(self, head: Head, deployments: Deployments, context: AttemptContext, *, may_move: bool) -> None:
        """Begin without one; unless the job takes checkpoints, and its owners ``may_move``, orders are refused."""
        self.graph, self._key_groups = head.plan.graph, head.plan.loop.key_groups
        self._head, self._deployments, self._clock = head, deployments, context.clock
        self._checkpoints, self._orders = context.checkpoints, context.moves
        if not may_move:
            self._orders.close(OptionError(NOT_ON_RAY))
        elif context.checkpoints is None:
            self._orders.close(OptionError(NO_CHECKPOINTS))
        else:
            self._orders.open()
            over = OptionError(f"job {head.plan.name!r} is over: nothing moves")
            context.resources.callback(self._orders.close, over)
        self._coordinator = MoveCoordinator()
        self.may_move = may_move and context.checkpoints is not None
        self.held = False
        """Whether no order is taken up."""
        self.owners: dict[TaskId, Owners] = {}
        """Who has the key groups of each task that is up."""
        self.ended_instances: set[str] = set()
        """Those that are up and have ended."""
        self._order: _Order | None = None
        # Who has not said yet that its producers have sent the marker, and how many of the others' have.
        self._unsent, self._sent = 0, 0
        self._round_ns = 0

    @property
    def due_ns(self) -> int | None:
        """When the round under way takes too long; None: there is none."""
        return None if self._coordinator.moving is None else self._round_ns + ROUND_NS

    def began(self, tasks: Collection[TaskId], restored: RestoredState | None) -> None:
        """Instances of these tasks were built, with the owners of a checkpoint (None: with those of the beginning)."""
        noted = {} if restored is None else restored.owners()
        tables = owner_tables(self.graph, self._key_groups, noted)
        self.owners |= {task: tables[task] for task in tasks}
        names = {name for task in self.graph.tasks if task.id in tasks for name in self.graph.instances(task)}
        self.ended_instances -= names

    @property
    def last_move(self) -> int:
        """The number of the last move that was begun, 0: none."""
        return self._coordinator.last_move

    def is_quiet(self) -> bool:
        """Return whether nothing moves, and nothing is about to."""
        return self._order is None and self._coordinator.moving is None

    def redistribute(self, lead: TaskId, groups: Groups, done: Callable[[MoveSummary], None]) -> None:
        """Begin to move key groups of the tasks that move with one, as nothing moves; ``done`` hears what it took.

        If the tasks are taken down before, it is not called.
        """
        asked = AskedMove(0, MoveOrder("its key groups", ""))
        asked.progress = 0, len(groups)
        asked.answer.add_done_callback(lambda answer: None if answer.exception() else done(answer.result()))
        self._order = _Order(asked, lead, groups, self._clock.monotonic_ns())
        self._next_round(self._order)

    def gone(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """Tasks (None: all) are taken down."""
        down = frozenset(self.owners) if tasks is None else tasks
        reason = f"{type(error).__name__}: {error}"
        self._do(self._coordinator.on(ev.TasksFailed(down, reason)))
        if self._order is not None and self._order.lead in down:
            # What earlier rounds have moved is where the checkpoint says, too.
            self._fail(RetryableError(f"the move of {self._order.asked.order.instance!r} is void: {reason}"))

    def ended(self, instance: str) -> None:
        """An instance has ended."""
        self.ended_instances.add(instance)
        self._do(self._coordinator.on(ev.InstanceLeft(instance)))

    def turn(self) -> Struck | None:
        """Begin what was asked for, if nothing is under way; return what a round that takes too long strikes."""
        reroute, now_ns = self._coordinator.moving, self._clock.monotonic_ns()
        if reroute is None:
            if self._order is not None:
                self._next_round(self._order)
            elif not self.held and (asked := self._orders.take()) is not None:
                self._take(asked, now_ns)
            return None
        if now_ns < self._round_ns + ROUND_NS:
            return None
        self._round_ns = now_ns
        text = f"move {reroute.move} has not ended within {ROUND_NS // 1_000_000_000} s"
        return Struck(WorkerLostError(text), frozenset({reroute.task}))

    def hear(self, message: ms.OfMoves) -> None:
        """Take in what a task manager says of a move; of one that is void nothing counts."""
        reroute = self._coordinator.moving
        if reroute is None or reroute.move != message.move:
            return
        match message:
            case ms.MarkersSent():
                self._unsent -= 1
                self._sent += message.producers
                if not self._unsent:
                    self._do(self._coordinator.on(ev.MarkersSent(message.move, self._sent)))
            case ms.StateGiven():
                if self._order is not None:
                    self._order.state_bytes += message.bytes
                said = message.move, message.task, message.giver, message.taker
                self._do(self._coordinator.on(ev.StateGiven(*said)))
            case ms.StateInstalled():
                said = message.move, message.task, message.giver, message.taker
                self._do(self._coordinator.on(ev.StateInstalled(*said)))

    def _take(self, asked: AskedMove, now_ns: int) -> None:
        try:
            wanted = wanted_move(self.graph, self.owners, self._deployments.places(), asked.order)
        except PenstockError as error:
            asked.answer.set_exception(error)
            return
        asked.progress = 0, len(wanted.groups)
        self._order = _Order(asked, wanted.lead, wanted.groups, now_ns)
        self._next_round(self._order)

    def _next_round(self, order: _Order) -> None:
        count = round_groups(order.groups, order.state_bytes)
        now, order.left = order.left[:count], order.left[count:]
        order.groups += len(now)
        tasks = together(self.graph, order.lead)
        names = tuple((task.id, self.graph.name(task)) for task in takers(self.graph, tasks))
        instances = {name for task in takers(self.graph, tasks) for name in self.graph.instances(task)}
        self._round_ns = self._clock.monotonic_ns()
        wanted = ev.MoveWanted(order.lead, now, names, frozenset(self.ended_instances & instances))
        self._do(self._coordinator.on(wanted))

    def _do(self, commands: Sequence[ev.MoveCommand]) -> None:
        checkpoints = self._checkpoints
        for command in commands:
            match command:
                case ev.HoldBarriers() | ev.LetBarriersGo():
                    assert checkpoints is not None
                    checkpoints.hold_barriers(held=isinstance(command, ev.HoldBarriers))
                case ev.SendMarkers():
                    self._send(command)
                case ev.MoveDone():
                    self._end_round()
                case ev.MoveFailed():
                    self._fail(RetryableError(f"move {command.reroute.move} is void: {command.reason}"))

    def _send(self, command: ev.SendMarkers) -> None:
        reroute = command.reroute
        senders = {name for task in marker_senders(self.graph, command.tasks) for name in self.graph.instances(task)}
        deployment = next(item for item in self._deployments if reroute.task in item.tasks)
        places = self._deployments.region(deployment.tasks)
        by_manager = _by_manager(places, senders)
        self._unsent, self._sent = len(by_manager), 0
        for task in command.tasks:
            self.owners[task] = moved(self.owners[task], reroute.groups)
        for manager, mine in by_manager.items():
            order = ms.SendMarkers(deployment.number, reroute.move, reroute.task, reroute.groups, mine)
            self._head.send(manager, order)

    def _end_round(self) -> None:
        order = self._order
        if order is None:
            return
        now_ns = self._clock.monotonic_ns()
        order.rounds_ns.append(now_ns - self._round_ns)
        order.asked.progress = order.groups, order.groups + len(order.left)
        if order.left:
            return
        self._order = None
        p50, p99 = (float(np.percentile(order.rounds_ns, q)) / 1e6 for q in (50, 99))
        took_ms = (now_ns - order.began_ns) / 1e6
        done = MoveSummary(order.groups, len(order.rounds_ns), order.state_bytes, took_ms, p50, p99)
        order.asked.answer.set_result(done)

    def _fail(self, error: PenstockError) -> None:
        order, self._order = self._order, None
        if order is not None:
            order.asked.answer.set_exception(error)


def _by_manager(places: Mapping[str, str], names: Collection[str]) -> dict[str, tuple[str, ...]]:
    managers = sorted({places[name] for name in names})
    return {manager: tuple(sorted(name for name in names if places[name] == manager)) for manager in managers}
