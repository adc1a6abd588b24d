"""The change of a running job's parallelism: while it runs where that can be, else behind a checkpoint, all anew.

Task managers stay. What begins anew stands still from the checkpoint's commit until its instances run. It belongs to
the thread of the job.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.core.contract import Clock
from penstock.engine.jobs.attempt import Attempt, JobPlan, LiveDone
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.rescale_orders import AskedRescale, RescaleOrders, RescaleSummary
from penstock.engine.jobs.rescale_preview import changed, moved_groups
from penstock.engine.moves.live_changes import live_change
from penstock.engine.moves.under_way import BUILT_ANEW, COMMITTED, ChangeUnderWay, rescale_phrase
from penstock.engine.plan.recut import recut
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import PenstockError, PlanChangedError, RetryableError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId


@dataclass(slots=True)
class _Order:
    """An order that is carried out: the plan that it leads to, and the last checkpoint begun before it.

    While it is ``live`` nothing stops for it.
    """

    asked: AskedRescale
    before: ExecutionGraph
    after: ExecutionGraph
    begun: int
    began_ns: int
    stopped_ns: int | None = None
    live: bool = False


class Rescaling:
    """What was asked for and how far it is."""

    def __init__(
        self,
        orders: RescaleOrders,
        plan: JobPlan,
        session: CheckpointSession,
        clock: Clock,
        come_to: Callable[[ExecutionGraph], None],
        tell: Callable[[str], None],
    ) -> None:
        """Begin with the plan that the job begins with.

        ``come_to`` lets the job build by another plan from now on, ``tell`` takes what the user is told: both of
        changes that are made while it runs.
        """
        self._come_to, self._tell = come_to, tell
        self._orders, self._session, self._clock = orders, session, clock
        self._key_groups, self._graph = plan.loop.key_groups, plan.graph
        self._order: _Order | None = None

    def shown(self, metrics: JobMetrics) -> JobMetrics:
        """Return metrics with the change that an attempt cannot come to while it runs; from any thread."""
        order = self._order
        if order is None or order.live:
            return metrics
        waits_for = COMMITTED if order.stopped_ns is None else BUILT_ANEW
        return replace(metrics, change=ChangeUnderWay(rescale_phrase(order.asked.parallelism), waits_for))

    def is_due(self) -> bool:
        """Return whether `turn` has something to do."""
        if self._order is None:
            return self._orders.is_waiting()
        if self._order.live:
            return False
        return self._order.stopped_ns is None and self._session.committed_epoch > self._order.begun

    def turn(self, attempt: Attempt | None) -> PlanChangedError | None:
        """Take an order up, live if the attempt can, else ask for a checkpoint; return what ends it behind that."""
        if self._order is None:
            self._take(attempt)
        elif self.is_due():
            self._order.stopped_ns = self._clock.monotonic_ns()
            return PlanChangedError(f"it goes on with {_sentence(self._order)}")
        return None

    def next_plan(self, tasks: frozenset[TaskId] | None) -> ExecutionGraph | None:
        """Return the plan that instances of these tasks (None: all) are to be built by, None: the one of before.

        Any restart of the whole job will do, or of what a live change is of: whatever made it necessary.
        """
        order = self._order
        if order is None or (tasks is not None and not (order.live and _changes(order, tasks))):
            return None
        if tasks is not None:
            return order.after
        order.asked.state, order.live = "restarting", False
        order.stopped_ns = order.stopped_ns or self._clock.monotonic_ns()
        return order.after

    def built(self, tasks: frozenset[TaskId] | None, restored: RestoredState | None) -> str | None:
        """Take in that instances of these tasks (None: all) run by the plan of the job.

        Returns what to tell the user, None: nothing has changed.
        """
        self._orders.noted = {} if restored is None else restored.owners()
        order = self._order
        if order is None or (tasks is not None and not (order.live and _changes(order, tasks))):
            return None
        self._order, self._graph = None, order.after
        now_ns = self._clock.monotonic_ns()
        order.stopped_ns = order.stopped_ns or now_ns
        before, after = changed(order.before, order.after)
        moved, groups = moved_groups(order.after, self._key_groups, self._orders.noted)
        epoch = 0 if restored is None else restored.epoch
        waited_ms, stopped_ms = (order.stopped_ns - order.began_ns) / 1e6, (now_ns - order.stopped_ns) / 1e6
        summary = RescaleSummary(before, after, epoch, moved, groups, waited_ms, stopped_ms)
        order.asked.answer.set_result(summary)
        return f"{_sentence(order)}, from checkpoint {epoch}; it stood still for {stopped_ms / 1e3:.2f} s"

    def undo(self, error: BaseException) -> ExecutionGraph | None:
        """Return the plan of before, as that of the order cannot be built; None: it is not to blame."""
        order, self._order = self._order, None
        if order is None:
            return None
        order.asked.answer.set_exception(
            error if isinstance(error, PenstockError) else RetryableError(f"{type(error).__name__}: {error}")
        )
        return order.before

    def _take(self, attempt: Attempt | None) -> None:
        asked = self._orders.take()
        if asked is None:
            return
        try:
            # Where nothing else is wanted, instances are only placed anew.
            after = recut(self._graph, asked.parallelism, self._key_groups) if asked.parallelism else self._graph
        except PenstockError as error:
            asked.answer.set_exception(error)
            return
        named = [(task.id, after.node(operator).name) for task in after.tasks for operator in task.operators]
        loads = {task: asked.loads[name] for task, name in named if name in asked.loads}
        change = live_change(self._graph, after, loads=loads) if asked.parallelism else None
        if attempt is not None and not asked.keeps and not isinstance(change, str):
            live = attempt.change_live(change, self._done_live)
            if live is not None:
                self._begin_live(asked, live)
                return
        self._order = self._ordered(asked, after)
        asked.state = "checkpointing"
        self._session.request()

    def _begin_live(self, asked: AskedRescale, after: ExecutionGraph) -> None:
        asked.state = "moving"
        self._order = self._ordered(asked, after)
        self._order.live = True
        self._come_to(after)

    def _ordered(self, asked: AskedRescale, after: ExecutionGraph) -> _Order:
        return _Order(asked, self._graph, after, self._session.begun, self._clock.monotonic_ns())

    def _done_live(self, done: LiveDone) -> None:
        order, self._order = self._order, None
        assert order is not None
        self._graph = order.after
        before, after = changed(order.before, order.after)
        moved = sum(move.key_groups for move in done.moves.values())
        groups = sum(self._key_groups for _ in done.moves)
        summary = RescaleSummary(before, after, 0, moved, groups, done.took_ms, 0.0, True, done.partitions, done.moves)
        order.asked.answer.set_result(summary)
        partitions = f" and {done.partitions} partitions" if done.partitions else ""
        self._tell(f"{_sentence(order)}, while it ran; {moved} key groups{partitions} changed their instances")


def _changes(order: _Order, tasks: frozenset[TaskId]) -> bool:
    pairs = zip(order.before.tasks, order.after.tasks, strict=True)
    return any(will_be != was and was.id in tasks for was, will_be in pairs)


def _sentence(order: _Order) -> str:
    if order.after is order.before:
        return "its instances placed anew"
    before, after = changed(order.before, order.after)
    return ", ".join(
        f"{count} instance{'' if count == 1 else 's'} of {name!r} ({before[name]} before)"
        for name, count in after.items()
    )
