"""Instances that come and go while a job on task managers runs, as its head carries it out (docs/design/moves.md 7)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from penstock.engine.dataflow.checkpoint_port import participants
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.change_step import ChangeStep
from penstock.engine.executors.managers.deployment import Deployment
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.managed_moves import ManagedMoves
from penstock.engine.executors.managers.managed_partitions import ManagedPartitions
from penstock.engine.executors.managers.retired import Retired
from penstock.engine.jobs.attempt import AttemptContext, LiveDone, Struck
from penstock.engine.moves.dealt_partitions import PartitionMove, evened, followed
from penstock.engine.moves.held_state import HeldState
from penstock.engine.moves.live_changes import LiveChange, live_change, with_tasks, without_gaps
from penstock.engine.moves.movable import is_source
from penstock.engine.moves.move_orders import AskedMove, ChangeOrder, MoveCause
from penstock.engine.moves.spreading import shares, spread
from penstock.engine.moves.under_way import ChangeUnderWay, change_phrase
from penstock.engine.moves.vacating import vacated
from penstock.engine.moves.wanted_moves import Groups
from penstock.model.errors import PlanChangedError, RetryableError
from penstock.model.execution_graph import ExecutionGraph, Task
from penstock.model.failpoints import failpoint
from penstock.model.ids import TaskId


@dataclass(slots=True)
class _Change:
    change: LiveChange
    done: Callable[[LiveDone], None]
    step: ChangeStep
    began_ns: int
    regions: list[frozenset[TaskId]]
    deployments: list[Deployment] = field(default_factory=list)
    awaited: set[tuple[int, str]] = field(default_factory=set)
    moves: list[tuple[AskedMove, TaskId, Groups]] = field(default_factory=list)
    sources: list[Task] = field(default_factory=list)
    partitions: int = 0
    holds: bool = False
    leaving: set[str] = field(default_factory=set)
    noted: dict[str, AskedMove] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    vacates: tuple[str, ...] = ()
    epoch: int | None = None

    @property
    def cause(self) -> MoveCause:
        """What key groups move for."""
        return "drain" if self.vacates else "scale" if self.targets else "rescale"


class ManagedGrowth:
    """The changes of one attempt, one at a time. It belongs to the thread that runs it."""

    def __init__(
        self,
        head: Head,
        deployments: Deployments,
        moves: ManagedMoves,
        partitions: ManagedPartitions,
        context: AttemptContext,
        come_to: Callable[[ExecutionGraph], None],
        retired: Retired,
    ) -> None:
        """Begin without one; ``come_to`` lets everything of the attempt go by another plan from now on.

        ``retired`` are the task managers that have left while it runs.
        """
        self._head, self._deployments, self._moves, self._partitions = head, deployments, moves, partitions
        self._clock, self._checkpoints, self._come_to = context.clock, context.checkpoints, come_to
        self._warn, self._retired = context.warn, retired
        self._attempts: dict[TaskId, int] = {}
        # Of tasks since they began: who has left, and below which numbers there may have been instances.
        self._left: set[str] = set()
        self._used: dict[TaskId, int] = {}
        self._change: _Change | None = None
        # Why the whole job must begin anew: the change can neither go on nor be taken back.
        self._reason: str | None = None
        self._widened = False

    def began(self, tasks: Collection[TaskId], attempt: int) -> None:
        """Instances of these tasks were built, in this attempt."""
        self._attempts |= dict.fromkeys(tasks, attempt)
        graph = self._deployments.graph
        names = {graph.name(task) for task in graph.tasks if task.id in tasks}
        self._left = {name for name in self._left if name.rpartition("[")[0] not in names}
        self._used = {task: used for task, used in self._used.items() if task not in tasks}

    def held(self) -> HeldState:
        """Return what instances have now; from any thread."""
        ended = not self._passing().isdisjoint(self._moves.ended_instances - self._left)
        return replace(self._moves.held(), used=dict(self._used), ended=ended)

    def begin(self, change: LiveChange | None, done: Callable[[LiveDone], None]) -> ExecutionGraph | None:
        """Begin a change, and return the plan without gaps that it leads to; None: it cannot be while the job runs.

        Without one instances come to all task managers that have none, and all get as many key groups. ``done`` hears
        of the end, unless the tasks begin anew.
        """
        if change is not None:
            # The plan of the job has no gaps; that which runs may have some.
            found = live_change(self._deployments.graph, change.anew, self._used, change.loads)
            return found.anew if isinstance(found, LiveChange) and self._begin(found, done, {}) else None
        places, key_groups = self._deployments.places(), self._head.plan.loop.key_groups
        wider = spread(self._deployments.graph, places, self._head.pool.live(), key_groups, self._used)
        return wider[0].anew if wider is not None and self._begin(wider[0], done, wider[1]) else None

    def under_way(self) -> ChangeUnderWay | None:
        """Return the change that is under way, None: there is none; from any thread."""
        change = self._change
        if change is None:
            return None
        what, moves = change_phrase(change.change, change.vacates), None
        if change.step is ChangeStep.MOVED:
            moves = self._moves.under_way()
        return ChangeUnderWay(what, change.step.value) if moves is None else replace(moves, what=what)

    def vacate(self, managers: Sequence[str]) -> str | None:
        """Let others take over all that task managers host, which leave for good; return why that cannot be live.

        None: it is under way, or will be once what is under way is done. Who calls it again is told the same.
        """
        if self._change is not None or (self._checkpoints is not None and self._checkpoints.coordinator.is_halted()):
            return None
        graph, places, stay = self._deployments.graph, self._deployments.places(), self._head.pool.live()
        found = vacated(graph, places, managers, stay, self._used)
        if isinstance(found, str):
            return found
        done = partial(self._vacated, managers, len(found[0].leaving()))
        if not self._begin(found[0], done, found[1], tuple(managers)):
            return "instances of it have ended, or it takes no checkpoints"
        return None

    def _vacated(self, managers: Sequence[str], instances: int, done: LiveDone) -> None:
        groups = sum(move.key_groups for move in done.moves.values())
        self._warn(
            f"DRAINED: {', '.join(managers)}, while the job ran: {instances} instances went elsewhere with {groups} "
            f"key groups and {done.partitions} partitions, in {done.took_ms:,.0f} ms"
        )

    def _begin(
        self,
        change: LiveChange,
        done: Callable[[LiveDone], None],
        targets: Mapping[str, str],
        vacates: tuple[str, ...] = (),
    ) -> bool:
        if self._checkpoints is None or self._change is not None:
            return False
        if not self._passing().isdisjoint(self._moves.ended_instances - self._left):
            return False
        now_ns = self._clock.monotonic_ns()
        regions = list(change.regions())
        self._change = _Change(change, done, ChangeStep.QUIET, now_ns, regions, targets=targets, vacates=vacates)
        self._used |= {task.id: max(task.first_free, self._used.get(task.id, 0)) for task in change.wide.tasks}
        self._moves.is_held = True
        if change.grows:
            self._come_to(change.wide)
        return True

    def gone(self, tasks: frozenset[TaskId] | None) -> None:
        """Tasks (None: all) are taken down: they begin anew by the plan that the change leads to."""
        change, running = self._change, self._deployments.graph
        anew = without_gaps(running)
        if change is not None and (tasks is None or not tasks.isdisjoint(change.change.tasks())):
            anew, self._change, self._moves.is_held, self._reason = change.change.anew, None, False, None
            for asked, _, _ in change.moves:
                asked.answer.set_exception(RetryableError(f"{asked.order.instance} begin anew where they were to go"))
            if tasks is not None and not change.change.tasks() <= tasks:
                self._reason = "instances of other tasks were to come or go with those that failed"
            if change.holds:
                assert self._checkpoints is not None
                self._checkpoints.hold_barriers(held=False)
        if tasks is not None and self._retired.gone(tasks):
            self._reason = "a task manager has left that other tasks were on, too"
        pairs = zip(anew.tasks, running.tasks, strict=True)
        mixed = [new if tasks is None or new.id in tasks else runs for new, runs in pairs]
        following = with_tasks(running, mixed, anew)
        if following is not running:
            self._come_to(following)

    def ended(self, instance: str) -> None:
        """An instance has ended."""
        change = self._change
        if change is not None:
            change.leaving.discard(instance)

    def hear(self, manager: str, message: ms.Deployed | ms.Refused | ms.ChannelsJoined) -> bool:
        """Take in an answer; return whether it is one to a change."""
        change = self._change
        if change is None or (message.deployment, manager) not in change.awaited:
            return False
        change.awaited.discard((message.deployment, manager))
        if isinstance(message, ms.Refused):
            self._refuse(self._head.error(manager, message.failure))
        return True

    def turn(self) -> Struck | None:
        """Take the next step if it is time; return what strikes the job as it could not be taken."""
        if self._reason is not None:
            reason, self._reason = self._reason, None
            return Struck(PlanChangedError(f"it begins anew, as {reason}"), None)
        change = self._change
        if change is None or change.awaited:
            return None
        match change.step:
            case ChangeStep.QUIET:
                self._grow_when_quiet(change)
            case ChangeStep.SINKS if self._widened:
                self._grow_when_quiet(change)
            case ChangeStep.BUILT:
                self._join(change)
            case ChangeStep.JOINED:
                self._joined(change)
            case ChangeStep.DEALT:
                self._deal_on(change)
            case ChangeStep.MOVED:
                self._move_on(change)
            case ChangeStep.LEFT if not change.leaving:
                self._note_left(change)
            case ChangeStep.SAVED:
                self._save(change)
            case _:
                pass
        return None

    def _grow_when_quiet(self, change: _Change) -> None:
        if not self._moves.is_quiet():
            return
        if not change.change.grows:
            self._begin_to_deal(change)
            return
        assert self._checkpoints is not None
        # Not before: who moves, or hands partitions over, holds barriers and lets them go himself.
        change.holds = True
        self._checkpoints.hold_barriers(held=True)
        managers = self._head.pool.live()
        if not managers or not self._checkpoints.coordinator.is_quiet():
            return
        if change.step is ChangeStep.QUIET and (writers := change.change.writers()):
            change.step, self._widened = ChangeStep.SINKS, False
            self._checkpoints.widen_sinks(writers, partial(self._sinks_answer, change))
            return
        new = change.change.new()
        for region in change.regions:
            deployment = self._deployments.grow(region, new, managers, change.targets)
            change.deployments.append(deployment)
            self._head.send_to(deployment.managers, self._order(change.change, deployment))
            change.awaited |= {(deployment.number, manager) for manager in deployment.managers}
        change.step = ChangeStep.BUILT

    def _sinks_answer(self, change: _Change, error: BaseException | None) -> None:
        if change is self._change:
            self._widened = error is None
            if error is not None:
                self._refuse(error)

    def _order(self, change: LiveChange, deployment: Deployment) -> ms.Grow:
        assert self._checkpoints is not None
        begun = {int(task): count for task, count in change.begun().items() if task in deployment.tasks}
        owners = {int(task): self._moves.owners[task].astype("<i4").tobytes() for task in deployment.tasks}
        return ms.Grow(
            deployment.number,
            min(item.number for item in self._deployments if item.tasks == deployment.tasks),
            self._attempts[min(deployment.tasks)],
            tuple(sorted(deployment.tasks)),
            dict(self._deployments.region(deployment.tasks)),
            begun,
            {manager: self._head.address(manager) for manager in deployment.managers},
            self._deployments.sinks(),
            owners,
            self._checkpoints.begun,
            self._moves.last_move,
        )

    def _join(self, change: _Change) -> None:
        assert self._checkpoints is not None
        if not self._checkpoints.coordinator.is_quiet():
            # All others have ended, and the last checkpoint waits for no barrier.
            return
        for deployment in change.deployments:
            attempt, new = self._attempts[min(deployment.tasks)], deployment.places.keys()
            self._checkpoints.joined(new, attempt, new & participants(change.change.wide).readers)
        self._deployments.start(change.deployments)
        for deployment in change.deployments:
            self._head.send_to(deployment.managers, ms.JoinGrown(deployment.number))
            change.awaited |= {(deployment.number, manager) for manager in deployment.managers}
        change.step = ChangeStep.JOINED

    def _joined(self, change: _Change) -> None:
        assert self._checkpoints is not None
        change.holds = False
        self._checkpoints.hold_barriers(held=False)
        self._begin_to_deal(change)

    def _begin_to_deal(self, change: _Change) -> None:
        change.sources, change.step = list(change.change.sources()), ChangeStep.DEALT
        self._deal_on(change)

    def _deal_on(self, change: _Change) -> None:
        """Let the next source even out its partitions, or begin with key groups."""
        if not self._partitions.is_quiet():
            return
        if not change.sources:
            self._begin_moves(change)
            return
        task = change.sources.pop(0)
        running, staying = change.change.wide.instances(task), change.change.staying(task.id)
        followers = change.change.followers(task)

        def choose(held: Mapping[str, Sequence[str]], stay: Sequence[str]) -> Sequence[PartitionMove]:
            return followed(held, followers) if followers else evened(held, stay)

        self._partitions.begin(task.id, running, staying, choose, partial(self._dealt, change))

    def _dealt(self, change: _Change, partitions: int) -> None:
        change.partitions += partitions

    def _begin_moves(self, change: _Change) -> None:
        weights, graph, places = {}, change.change.after, self._deployments.places()
        if change.targets and not change.vacates:
            weights = {task.id: shares(graph, task, places) for task in graph.tasks}
        names = {task.id: graph.name(task) for task in graph.tasks}
        for lead, groups in change.change.moves(self._moves.owners, weights):
            if groups:
                asked = change.noted[names[lead]] = self._moves.note(ChangeOrder(names[lead], change.cause), groups)
                change.moves.append((asked, lead, groups))
        change.step = ChangeStep.MOVED
        self._move_on(change)

    def _move_on(self, change: _Change) -> None:
        """Begin the next move, or what follows the last."""
        if not self._moves.is_quiet():
            return
        if change.moves:
            self._moves.redistribute(*change.moves.pop(0))
            return
        if change.change.shrinks:
            self._dismiss(change)
        else:
            self._note_left(change)

    def _dismiss(self, change: _Change) -> None:
        """Let the instances go that have nothing any more: barriers pass them over once they have ended."""
        change.leaving = set(change.change.leaving()) - self._moves.ended_instances
        self._come_to(change.change.after)
        gone = {int(task): numbers for task, numbers in change.change.gone().items()}
        self._head.send_to(self._deployments.managers, ms.Dismiss(gone))
        change.step = ChangeStep.LEFT

    def _note_left(self, change: _Change) -> None:
        names = set(change.change.leaving())
        if names:
            failpoint("growth.left")
        self._left |= names
        for deployment in self._deployments:
            deployment.left |= names.intersection(deployment.places)
        change.step = ChangeStep.SAVED
        self._save(change)

    def _save(self, change: _Change) -> None:
        """Let task managers go that were to, once a checkpoint has what their instances brought forth at last."""
        if change.vacates and not self._is_saved(change):
            return
        for manager in change.vacates:
            self._retired.add(manager)
            failpoint("growth.retired")
        self._finish(change)

    def _is_saved(self, change: _Change) -> bool:
        checkpoints = self._checkpoints
        assert checkpoints is not None
        if change.epoch is not None and checkpoints.committed_epoch >= change.epoch:
            return True
        given_up = change.epoch is not None and checkpoints.coordinator.is_quiet() and checkpoints.begun >= change.epoch
        if (change.epoch is None or given_up) and all(map(self._deployments.hosts_nothing, change.vacates)):
            change.epoch = checkpoints.begun + 1
            checkpoints.request()
        return False

    def _finish(self, change: _Change) -> None:
        self._change, self._moves.is_held = None, False
        took_ms = (self._clock.monotonic_ns() - change.began_ns) / 1e6
        ended = ((task, asked.answer) for task, asked in change.noted.items() if asked.answer.done())
        moved = {task: answer.result() for task, answer in ended if answer.exception() is None}
        change.done(LiveDone(moved, took_ms, change.partitions))

    def _passing(self) -> frozenset[str]:
        """Return the instances that read from others; producers that have ended say so to whoever joins them."""
        graph = self._deployments.graph
        return frozenset(name for task in graph.tasks if not is_source(graph, task) for name in graph.instances(task))

    def _refuse(self, error: BaseException) -> None:
        self._reason = f"new instances could not be built beside the others: {type(error).__name__}: {error}"
