"""The scaler of a running job in its head: it looks once per its interval, and recommends to the action log, or acts.

The shell of `scheduler.control_loop` around a job.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil, isfinite
from typing import Any

from penstock.engine.control.cluster_snapshot import NO_OWNERS
from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.job_loop import JobLoop, LoopMemory
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.part_reading import PartReading
from penstock.engine.control.quota_share import QuotaShare
from penstock.engine.control.reading_book import FRESH_NS, ReadingBook
from penstock.engine.control.scale_actuator import ScaleActuator, ScaleResult
from penstock.engine.control.size_orders import instance_loads, order_of, wanted_bytes
from penstock.engine.control.whole_job import WholeJob
from penstock.model.control import Control
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners
from penstock.model.plan import RescalePlan
from penstock.model.scaling_status import ScalingStatus
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_effects import is_spread
from penstock.scheduler.control_loop import Steering
from penstock.scheduler.loop_state import Effect, LoopDecision
from penstock.scheduler.ownership import Resource, is_empty

Places = tuple[Any, str, Mapping[str, str], Mapping[str, float]]
"""Task managers, the caller, the places of instances, and how long ago each was heard, as `ReadingBook` takes them."""


UNKNOWN = "it is not known yet what other jobs have of the quota"


@dataclass(frozen=True, slots=True)
class ScaleMemory:
    """What is remembered over a change of the job's plan: that of its ``loop``, and what scalers do.

    By policy: ``acted_on`` is the snapshot of what is being done, ``status`` what was said of it, ``memory`` the bytes
    that each instance of a task is to have then, ``loads`` the part of a core's time that it takes.
    """

    loop: LoopMemory
    acted_on: Mapping[str, ClusterSnapshot]
    status: Mapping[str, ScalingStatus]
    memory: Mapping[str, Mapping[str, int]]
    loads: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def _say_nothing(sentence: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class ScaleSettings:
    """Who scales, by a ``control``; with an ``actuator`` they act.

    With the ``memory`` of the plan before what was done to that one counts. ``quota``: the job's share in that of
    several jobs, None: it has its own. ``tell`` takes what the user is told.
    """

    control: Control
    actuator: ScaleActuator | None = None
    memory: ScaleMemory | None = None
    quota: QuotaShare | None = None
    tell: Callable[[str], None] = _say_nothing


HANDED_OUT = frozenset({"buckets", "routes"})
"""Kinds of changes that hand work out anew among the instances that there are."""


class ScaleControl:
    """One scaler over one plan of a job."""

    def __init__(
        self,
        settings: ScaleSettings,
        item: Steering,
        loop: JobLoop,
        graph: ExecutionGraph,
        book: ReadingBook,
        log: DecisionLog | None,
        whole: WholeJob | None = None,
    ) -> None:
        """Begin with nothing seen, as the ``item`` of a loop; ``book`` is its own, with windows of its interval.

        ``whole`` is the size of the job, None: nobody sizes all of it.
        """
        actuator, memory = settings.actuator, settings.memory
        self.name = item.name
        self._policy, self._graph = item.policy, graph
        self._actuator = actuator
        self._loop = loop
        self._book, self._log = book, log
        self._has_looked = False
        self._heard_ns: dict[str, int] = {}
        self._sizes_all = Resource.ALLOCATIONS in item.role.owns
        self._whole = whole if self._sizes_all or (whole is not None and whole.is_shared) else None
        self._acted_on = None if memory is None else memory.acted_on.get(self.name)
        self.memory: Mapping[str, int] = {} if memory is None else memory.memory.get(self.name, {})
        """What is being done gives each instance of these tasks so many bytes."""
        self.loads: Mapping[str, float] = {} if memory is None else memory.loads.get(self.name, {})
        """What is being done places instances of tasks that take so much of a core's time."""
        self._mode = "act" if settings.control.may_scale else "recommend"
        self.status: ScalingStatus | None = None if memory is None else memory.status.get(self.name)
        """What was decided last, and what became of it; None: nothing was decided yet."""
        self._effects: list[Effect] = []

    @property
    def acted_on(self) -> ClusterSnapshot | None:
        """The snapshot of what is being done by this scaler, None: nothing is."""
        return self._acted_on

    @property
    def _changes(self) -> int:
        return 0 if self.status is None else self.status.changes

    def tick(
        self,
        places: Places,
        latest: Mapping[str, tuple[MachineReading, PartReading | None, int]],
        now_ns: int,
        owners: Mapping[TaskId, Owners] = NO_OWNERS,
    ) -> None:
        """Let the scaler see the job if it is time; keep what it decides, and let it be done."""
        loop, now_s = self._loop, self._loop.now_s(now_ns)
        if (result := self._turn(now_ns)) is not None:
            self._ended(result, now_ns)
        if not self._has_looked:
            self._has_looked = True
            if self._log is not None:
                self._log.begin(self.name, self._policy, goes_on=self.name in loop.went_on)
            self._look(places, latest, now_ns, owners)
            return
        if self._whole is not None and not self._whole.is_known:
            reason = self._whole.failure or UNKNOWN
            self.status = ScalingStatus(self.name, self._mode, reason, changes=self._changes)
            return
        if self.name not in loop.loop.due(loop.state, now_s) or self._awaits_reading(latest, places[0], now_ns):
            return
        snapshot = self._look(places, latest, now_ns, owners)
        decisions, effects, loop.state = loop.loop.tick({self.name: snapshot}, now_s, loop.state)
        # While the job settles nothing is decided, and what came of an action may be seen then.
        self._effects += effects
        reason = loop.loop.goes_first(self.name, now_s, loop.state)
        if reason and self._acted_on is None:
            self.status = ScalingStatus(self.name, self._mode, reason, changes=self._changes)
        for decision in decisions:
            self._keep(decision, self._effects)
            self._effects = []
            self.status = self._status_of(decision)
            if decision.acts and isinstance(decision.allowed, RescalePlan) and not is_empty(decision.allowed):
                self._begin(decision.allowed, decision.snapshot, now_ns)

    def _begin(self, plan: RescalePlan, snapshot: ClusterSnapshot, now_ns: int) -> None:
        self._acted_on = snapshot
        named = ((self._graph.name(self._graph.tasks[size.task]), wanted_bytes(size, snapshot)) for size in plan.tasks)
        self.memory = {name: size for name, size in named if size is not None}
        self.loads = instance_loads(plan, self._graph, snapshot) if plan.cores else {}
        if self._whole is not None:
            self._whole.begin(plan, snapshot, now_ns)
        else:
            assert self._actuator is not None
            self._actuator.begin(order_of(plan, self._graph, snapshot), now_ns)

    def _turn(self, now_ns: int) -> ScaleResult | None:
        """Go on with what this scaler has begun: what is in flight may be another one's."""
        if self._acted_on is None:
            return None
        if self._whole is not None:
            return self._whole.turn(now_ns)
        return None if self._actuator is None else self._actuator.turn(now_ns)

    def _status_of(self, decision: LoopDecision) -> ScalingStatus:
        tasks = self._graph.tasks
        plan = decision.allowed if isinstance(decision.allowed, RescalePlan) else RescalePlan("")
        named = [(self._graph.name(tasks[it.task]), tasks[it.task].parallelism, it) for it in plan.tasks]
        wanted = tuple((name, now, it.parallelism) for name, now, it in named if it.parallelism != now)
        sized = ((name, wanted_bytes(it, decision.snapshot)) for name, _, it in named)
        memory = tuple((name, size) for name, size in sized if size is not None)
        outcome = "" if is_empty(plan) else "begun" if decision.acts else "recommended"
        moves = Counter(self._graph.name(tasks[move.task]) for move in plan.buckets)
        edges = decision.snapshot.edges
        routes = tuple((self._graph.name(tasks[edges.consumer[it.edge]]), it.shares) for it in plan.routes)
        withheld = decision.withheld[0].reason if decision.withheld else ""
        said = (self.name, self._mode, decision.allowed.reason, wanted, outcome, withheld, self._changes, memory)
        # Where a task gets others they come beside those that run.
        spread = 0 if wanted else max((ceil(need.cores) for need in plan.cores if need.spreads), default=0)
        return ScalingStatus(*said, tuple(moves.items()), routes, spread)

    def _keep(self, decision: LoopDecision, effects: Sequence[Effect]) -> None:
        if self._log is None:
            return
        self._log.add(decision.snapshot, self.name, decision.decided)
        if decision.acts or decision.expectations or decision.withheld or effects:
            outcome = "begun" if decision.acts else "recommended"
            self._log.result(decision.snapshot, self.name, outcome, detail_of(decision, effects))

    def _ended(self, result: ScaleResult, now_ns: int) -> None:
        in_vain: Collection[str] = ()
        if result.failure is not None:
            changes = [change for action in self._loop.state.in_flight for change in action.changes]
            # What cannot be handed out or spread so is not tried again as things are; whoever decides may size instead.
            if all(change.kind in HANDED_OUT or is_spread(change) for change in changes):
                in_vain = {change.subject for change in changes}
        self._loop.ended(now_ns, is_done=result.failure is None, in_vain=in_vain)
        if self._log is not None and self._acted_on is not None:
            detail = {"failure": result.failure} if result.summary is None else asdict(result.summary)
            self._log.result(self._acted_on, self.name, "failed" if result.failure else "applied", detail)
        self._acted_on, self.memory, self.loads = None, {}, {}
        if self.status is not None:
            outcome, done = ("applied", 1) if result.failure is None else (f"failed: {result.failure}", 0)
            self.status = replace(self.status, outcome=outcome, changes=self.status.changes + done)

    def forget(self, manager: str) -> None:
        """A task manager is gone."""
        self._book.forget(manager)
        self._heard_ns.pop(manager, None)

    def _awaits_reading(
        self,
        latest: Mapping[str, tuple[MachineReading, PartReading | None, int]],
        managers: Collection[str],
        now_ns: int,
    ) -> bool:
        """Return whether a task manager has read nothing since the last look, and is about to.

        They read once a second by clocks of their own, and later while a step takes long: of one that is looked at
        between two of its readings nothing would be known.
        """
        return any(
            heard_ns == self._heard_ns.get(name) and now_ns - heard_ns <= FRESH_NS
            for name, (_, _, heard_ns) in latest.items()
            if name in managers
        )

    def _look(
        self,
        places: Places,
        latest: Mapping[str, tuple[MachineReading, PartReading | None, int]],
        now_ns: int,
        owners: Mapping[TaskId, Owners],
    ) -> ClusterSnapshot:
        for manager, reading in latest.items():
            self._book.hear(manager, *reading)
            self._heard_ns[manager] = reading[2]
        snapshot = self._book.snapshot(*places, now_ns, owners)
        if self._whole is None:
            return snapshot
        if self._sizes_all:
            return self._whole.seen(snapshot, self._book.windows, places[0])
        return self._whole.seen_beside_others(snapshot, places[0])


def detail_of(decision: LoopDecision, effects: Sequence[Effect] = ()) -> dict[str, Any]:
    """Return what a log keeps of a decision beside itself: what is expected of it, and what was withheld and why.

    ``effects`` are those of earlier actions, as they were seen now.
    """
    return {
        "effects": [
            # What is gone, or was not measured, has no figure, and JSON none for that.
            {
                "subject": item.subject,
                "figure": item.figure,
                "expected": item.expected,
                "observed": seen if isfinite(seen) else None,
            }
            for effect in effects
            for item, seen in zip(effect.action.expectations, effect.observed, strict=True)
        ],
        "expected": [
            {"subject": item.subject, "figure": item.figure, "before": item.before, "after": item.expected}
            for item in decision.expectations
        ],
        "withheld": [{"subject": item.subject, "what": item.what, "why": item.reason} for item in decision.withheld],
    }
