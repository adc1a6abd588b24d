"""Moves of a job on task managers, as its head carries them out: one order at a time, in rounds of some key groups."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.engine.checkpoint.states import TRAVELLING
from penstock.engine.core.elements import Reroute
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.managed_partitions import ManagedPartitions
from penstock.engine.executors.managers.managed_routes import ManagedRoutes
from penstock.engine.executors.managers.places import names_at
from penstock.engine.jobs.adoption import AdoptedDeployment
from penstock.engine.jobs.attempt import AttemptContext, Struck
from penstock.engine.moves import move_events as ev
from penstock.engine.moves.dealt_partitions import PartitionMove, handed_over
from penstock.engine.moves.held_state import HeldState, StateBytes, planned_bytes
from penstock.engine.moves.movable import marker_senders, takers, together
from penstock.engine.moves.move_account import MoveAccount
from penstock.engine.moves.move_coordinator import MoveCoordinator
from penstock.engine.moves.move_orders import AskedMove, ChangeOrder, GroupsOrder, MoveSummary, MoveTotals
from penstock.engine.moves.round_times import may_begin, rest_ns
from penstock.engine.moves.source_rates import SourceRates
from penstock.engine.moves.under_way import ChangeUnderWay
from penstock.engine.moves.wanted_moves import (
    Groups,
    WantedHandover,
    WantedMove,
    round_groups,
    wanted_groups,
    wanted_handover,
    wanted_move,
)
from penstock.engine.restore.key_group_owners import owner_tables
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import OptionError, PenstockError, RetryableError, WorkerLostError
from penstock.model.failpoints import failpoint
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners, moved

ROUND_NS = 60_000_000_000
"""How long a round of a move may take before its region begins anew."""

NO_CHECKPOINTS = (
    "a job without checkpoints does not move: one that fails meanwhile would be lost. Run it with checkpoint_dir=..."
)


@dataclass(slots=True)
class _Order:
    """An order that is carried out: what is left of it, what its rounds have taken, and checkpoints before the last.

    ``rests_until_ns``: no barrier is sent and no round begins before; None: it does not rest.
    """

    asked: AskedMove
    lead: TaskId
    left: Groups
    account: MoveAccount
    begun: int
    rests_until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    """An order of which partitions change their instances."""

    asked: AskedMove
    task: TaskId
    began_ns: int


class ManagedMoves:
    """The moves of one attempt. It belongs to the thread that runs it."""

    def __init__(
        self,
        head: Head,
        deployments: Deployments,
        context: AttemptContext,
        state_bytes: StateBytes,
        partitions: ManagedPartitions,
    ) -> None:
        """Begin without one; unless the job takes checkpoints, orders are refused.

        ``state_bytes`` returns how much state some operators, by name, have at a task manager; ``partitions`` go as
        these have them go.
        """
        self._state_bytes, self._warn, self._partitions = state_bytes, context.warn, partitions
        self._reading: _Reading | None = None
        self.graph, self._key_groups = head.plan.graph, head.plan.loop.key_groups
        self._head, self._deployments, self._clock = head, deployments, context.clock
        self._checkpoints, self._orders = context.checkpoints, context.moves
        if context.checkpoints is None:
            self._orders.close(OptionError(NO_CHECKPOINTS))
        else:
            self._orders.open()
            over = OptionError(f"job {head.plan.name!r} is over: nothing moves")
            context.resources.callback(self._orders.close, over)
        self._routes = ManagedRoutes(head, deployments, context, lambda: self.graph)
        self._coordinator = MoveCoordinator()
        self.is_held = False
        """Whether no order is taken up."""
        self.owners: dict[TaskId, Owners] = {}
        """Who has the key groups of each task that is up."""
        self.ended_instances: set[str] = set()
        """Those that are up and have ended."""
        self._order: _Order | None = None
        # Who has not said yet that its producers have sent the marker, and how many of the others' have.
        self._unsent, self._sent = 0, 0
        self._round_ns = 0
        # Of the last move that was done.
        self._ns_per_byte: float | None = None
        self.rates = SourceRates()

    @property
    def due_ns(self) -> int | None:
        """When the round under way takes too long, or the next one may begin; None: there is none."""
        if self._coordinator.moving is not None:
            return self._round_ns + ROUND_NS
        return None if self._order is None else self._order.rests_until_ns

    def totals(self) -> MoveTotals | None:
        """Return what moves of the job took; from any thread."""
        return self._orders.totals()

    def under_way(self) -> ChangeUnderWay | None:
        """Return the move that is under way, None: there is none; from any thread."""
        order, reading = self._order, self._reading
        asked = order.asked if order is not None else reading.asked if reading is not None else None
        if asked is None:
            return None
        what = f"{asked.order.instance} to {asked.order.manager}"
        if order is None:
            return ChangeUnderWay(what, "partitions have changed their instances")
        task = next(self.graph.name(task) for task in self.graph.tasks if task.id == order.lead)
        return ChangeUnderWay(what, "key groups have moved", task, *asked.progress)

    def began(self, tasks: Collection[TaskId], restored: RestoredState | None) -> None:
        """Instances of these tasks were built, with the owners of a checkpoint (None: with those of the beginning)."""
        noted = {} if restored is None else restored.owners()
        tables = owner_tables(self.graph, self._key_groups, noted)
        self.owners |= {task: tables[task] for task in tasks}
        names = {self.graph.name(task) for task in self.graph.tasks if task.id in tasks}
        self.ended_instances = {name for name in self.ended_instances if name.rpartition("[")[0] not in names}
        self._routes.say()

    @property
    def last_move(self) -> int:
        """The number of the last move that was begun, 0: none."""
        return self._coordinator.last_move

    def is_quiet(self) -> bool:
        """Return whether nothing moves, and nothing is about to."""
        return self._order is None and self._coordinator.moving is None and self._partitions.is_quiet()

    def note(self, order: ChangeOrder, groups: Groups) -> AskedMove:
        """Note a move that a change is made of, for whoever looks at what moves; see `redistribute`."""
        return self._orders.note(order, len(groups))

    def redistribute(self, asked: AskedMove, lead: TaskId, groups: Groups) -> None:
        """Begin a move that was noted: of key groups of the tasks that move with one, as nothing moves."""
        asked.begun = True
        self._begin(asked, WantedMove(lead, groups), self._clock.monotonic_ns())

    def held(self) -> HeldState:
        """Return what instances have now; from any thread."""
        places = self._deployments.places()
        return HeldState(self.graph, dict(self.owners), places, self._state_bytes, self._ns_per_byte)

    def adopted(self, deployments: Iterable[AdoptedDeployment], restored: RestoredState | None) -> None:
        """Instances of another head go on, with the owners that the task managers know of since."""
        deployments = tuple(deployments)
        self.began({task for item in deployments for task in item.tasks}, restored)
        for item in deployments:
            self.owners |= item.owners
        # A number that one of them has seen must not come again.
        self._coordinator = MoveCoordinator(max((item.last_move for item in deployments), default=0))

    def gone(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """Tasks (None: all) are taken down."""
        down = frozenset(self.owners) if tasks is None else tasks
        reason = f"{type(error).__name__}: {error}"
        self._do(self._coordinator.on(ev.TasksFailed(down, reason)))
        if self._order is not None and self._order.lead in down:
            # What earlier rounds have moved is where the checkpoint says, too.
            self._fail(RetryableError(f"the move of {self._order.asked.order.instance!r} is void: {reason}"))
        if self._reading is not None and (tasks is None or self._reading.task in tasks):
            asked, self._reading = self._reading.asked, None
            self._refuse(asked, RetryableError(f"the move of {asked.order.instance!r} is void: {reason}"))

    def ended(self, instance: str) -> None:
        """An instance has ended."""
        self.ended_instances.add(instance)
        self._do(self._coordinator.on(ev.InstanceLeft(instance)))

    def turn(self) -> Struck | None:
        """Begin what was asked for, if nothing is under way; return what a round that takes too long strikes."""
        self._routes.look()
        reroute, now_ns = self._coordinator.moving, self._clock.monotonic_ns()
        if reroute is None:
            if self._order is not None:
                self._go_on(self._order, now_ns)
            elif not self.is_held and self._partitions.is_quiet() and (asked := self._orders.take()) is not None:
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
                    self._order.account.given(self._clock.monotonic_ns(), message.bytes)
                said = message.move, message.task, message.giver, message.taker
                self._do(self._coordinator.on(ev.StateGiven(*said)))
            case ms.StateInstalled():
                if self._order is not None:
                    pair = message.giver, message.taker
                    groups = sum((giver, taker) == pair for _, giver, taker in reroute.groups)
                    self._order.account.installed(groups, message.buckets, message.paused_ns)
                said = message.move, message.task, message.giver, message.taker
                self._do(self._coordinator.on(ev.StateInstalled(*said)))

    def _take(self, asked: AskedMove, now_ns: int) -> None:
        order = asked.order
        try:
            places = self._deployments.places()
            # Those of changes are noted and never wait.
            assert not isinstance(order, ChangeOrder)
            if isinstance(order, GroupsOrder):
                wanted = wanted_groups(self.graph, self.owners, order)
            elif (reads := wanted_handover(self.graph, places, self.ended_instances, order)) is not None:
                self._hand_over(reads, asked, now_ns)
                return
            else:
                wanted = wanted_move(self.graph, self.owners, places, order)
        except PenstockError as error:
            asked.answer.set_exception(error)
            return
        asked.progress = 0, len(wanted.groups)
        self._begin(asked, wanted, now_ns)

    def _begin(self, asked: AskedMove, wanted: WantedMove, now_ns: int) -> None:
        held = self.held()
        planned = sum(planned_bytes(held, wanted.lead, wanted.groups).values())
        account = MoveAccount(now_ns, int(planned), held.planned_ms(planned))
        self._order = _Order(asked, wanted.lead, wanted.groups, account, self._begun())
        self._go_on(self._order, now_ns)

    def _hand_over(self, wanted: WantedHandover, asked: AskedMove, now_ns: int) -> None:
        self._reading = _Reading(asked, wanted.task, now_ns)

        def choose(held: Mapping[str, Sequence[str]], stay: Sequence[str]) -> Sequence[PartitionMove]:
            return handed_over(held, wanted.giver, set(wanted.takers) & set(stay)) if wanted.giver in held else ()

        self._partitions.begin(wanted.task, wanted.instances, wanted.instances, choose, self._handed_over)

    def _handed_over(self, partitions: int) -> None:
        reading, self._reading = self._reading, None
        if reading is None:
            return
        if not partitions:
            self._refuse(
                reading.asked, OptionError(f"{reading.asked.order.instance!r} reads nothing that others could.")
            )
            return
        took_ms = (self._clock.monotonic_ns() - reading.began_ns) / 1e6
        self._finish(reading.asked, MoveSummary(0, 0, 0, took_ms, 0.0, 0.0, partitions=partitions))

    def _finish(self, asked: AskedMove, done: MoveSummary) -> None:
        asked.answer.set_result(done)
        self._warn(f"MOVED: {asked.order.instance} to {asked.order.manager}: {done.sentence()}")

    def _refuse(self, asked: AskedMove, error: PenstockError) -> None:
        asked.answer.set_exception(error)
        self._warn(f"NOT MOVED: {error}")

    def _begun(self) -> int:
        assert self._checkpoints is not None
        return self._checkpoints.begun

    def _go_on(self, order: _Order, now_ns: int) -> None:
        """Begin the next round, unless it is too soon or a checkpoint goes first."""
        checkpoints = self._checkpoints
        assert checkpoints is not None
        if order.rests_until_ns is not None:
            if now_ns < order.rests_until_ns:
                return
            self._end_rest(order)
        went = checkpoints.begun - order.begun
        travelling = checkpoints.coordinator.state in TRAVELLING
        if may_begin(travelling=travelling, pressing=self._is_pressing(now_ns), let_through=went > 0):
            self._next_round(order, now_ns, went)

    def _is_pressing(self, now_ns: int) -> bool:
        assert self._checkpoints is not None
        pressing_ns = self._checkpoints.coordinator.pressing_ns()
        return pressing_ns is not None and pressing_ns <= now_ns

    def _rest(self, order: _Order, now_ns: int, round_ns: int) -> None:
        """Let others have the cores behind a round; a checkpoint goes first that waits no longer."""
        assert self._checkpoints is not None
        if not self._is_pressing(now_ns):
            order.rests_until_ns = now_ns + rest_ns(round_ns)
            self._checkpoints.hold_barriers(held=True)

    def _end_rest(self, order: _Order) -> None:
        assert self._checkpoints is not None
        if order.rests_until_ns is not None:
            order.rests_until_ns = None
            self._checkpoints.hold_barriers(held=False)

    def _next_round(self, order: _Order, now_ns: int, checkpoints: int) -> None:
        account = order.account
        expected = account.planned_bytes // max(account.key_groups + len(order.left), 1)
        count = round_groups(account.key_groups, account.state_bytes, expected)
        now, order.left = order.left[:count], order.left[count:]
        account.round_begins(now_ns, len(now), checkpoints)
        order.begun = self._begun()
        tasks = together(self.graph, order.lead)
        names = tuple((task.id, self.graph.name(task)) for task in takers(self.graph, tasks))
        instances = {name for task in takers(self.graph, tasks) for name in self.graph.instances(task)}
        self._round_ns = now_ns
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
                    self._end_round(command.reroute)
                case ev.MoveFailed():
                    self._fail(RetryableError(f"move {command.reroute.move} is void: {command.reason}"))

    def _send(self, command: ev.SendMarkers) -> None:
        reroute = command.reroute
        senders = {name for task in marker_senders(self.graph, command.tasks) for name in self.graph.instances(task)}
        places, deployments = self._deployments.at(reroute.task)
        self._unsent, self._sent = len(deployments), 0
        for task in command.tasks:
            self.owners[task] = moved(self.owners[task], reroute.groups)
        for manager, number in deployments.items():
            mine = tuple(sorted(names_at(places, manager) & senders))
            self._head.send(manager, ms.SendMarkers(number, reroute.move, reroute.task, reroute.groups, mine))
            failpoint("move.round.told")

    def _end_round(self, reroute: Reroute) -> None:
        for manager, number in self._deployments.at(reroute.task)[1].items():
            self._head.send(manager, ms.RoundOver(number, reroute.move))
            failpoint("move.round.over")
        order = self._order
        if order is None:
            return
        now_ns, account = self._clock.monotonic_ns(), order.account
        account.round_is_over(now_ns)
        order.asked.progress = account.key_groups, account.key_groups + len(order.left)
        if order.left:
            # Before anybody begins a checkpoint that is due.
            self._rest(order, now_ns, now_ns - self._round_ns)
            return
        self._order = None
        done = account.summary(now_ns, self.rates)
        if done.state_bytes:
            self._ns_per_byte = 1e6 * done.took_ms / done.state_bytes
        self._finish(order.asked, done)

    def _fail(self, error: PenstockError) -> None:
        order, self._order = self._order, None
        if order is not None:
            self._end_rest(order)
            self._refuse(order.asked, error)
