"""The size of a whole job, for all who size it: what it has and uses, and how another size comes about.

Where jobs share a quota, more is asked for before it is taken, whoever decides on it. The shell of `application_use`,
`quota_share` and `scale_actuator`; it belongs to the thread of the job's head.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from penstock.engine.control.application_orders import order_of_application, wanted_memory
from penstock.engine.control.application_use import with_others, with_use
from penstock.engine.control.machine_load import MachineWindow
from penstock.engine.control.quota_share import NOTHING, Held, QuotaShare
from penstock.engine.control.scale_actuator import ScaleActuator, ScaleResult, SizeOrder
from penstock.engine.control.size_orders import memory_after, order_of
from penstock.model.control import Control
from penstock.model.errors import PenstockError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.plan import ApplicationSize, RescalePlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.limits import Refusal

OTHERS_TOOK_IT = "other jobs have what there was of the quota"

ROUNDED_CORES = 1e-6
"""So little is the rounding of sums."""

LEAST_CORES = 0.1
"""So much of a core for each task manager is leased at first, and granted whatever others have: with none of the CPU
a task manager would not be heard of. Until more is granted, a matter of seconds, nothing holds them to it."""


class WholeJob:
    """One plan of a job."""

    def __init__(
        self,
        graph: ExecutionGraph,
        control: Control,
        actuator: ScaleActuator | None,
        quota: QuotaShare | None,
        tell: Callable[[str], None],
    ) -> None:
        """Begin with nothing seen; without an ``actuator`` it is only looked at, without ``quota`` it has its own.

        ``tell`` takes what the user is told.
        """
        self._graph, self._control, self._actuator, self._quota = graph, control, actuator, quota
        self._tell = tell
        self._first = 0.0
        self._seen: Held | None = None
        self._job = ""
        self._asked: tuple[RescalePlan, ClusterSnapshot] | None = None
        self._refused = ""
        self.failure = ""
        """Why it is not known what others have, "" if it is."""

    @property
    def is_known(self) -> bool:
        """Whether it may be decided on: it is known what others have, and what it has itself."""
        if self._quota is None:
            return True
        begins = self._actuator is not None and self._actuator.cores.wanted is None
        return self._quota.view is not None and not self.failure and not begins

    @property
    def is_shared(self) -> bool:
        """Whether the job shares a quota with others."""
        return self._quota is not None

    def seen(
        self, snapshot: ClusterSnapshot, windows: Mapping[str, MachineWindow], managers: Collection[str]
    ) -> ClusterSnapshot:
        """Return a snapshot with what the job has and uses, and what others have."""
        threads, own = max(1, len(managers)), [windows[name] for name in managers if name in windows]
        others = () if self._quota is None else self._quota.others
        return self._taken_in(with_use(snapshot, own, self._cores(threads), threads, others))

    def seen_beside_others(self, snapshot: ClusterSnapshot, managers: Collection[str]) -> ClusterSnapshot:
        """Return a snapshot with what the job has, and what others have: for who sizes its tasks."""
        assert self._quota is not None
        return self._taken_in(with_others(snapshot, self._cores(max(1, len(managers))), self._quota.others))

    def _taken_in(self, whole: ClusterSnapshot) -> ClusterSnapshot:
        self._job = whole.applications.name[0]
        if self._quota is not None:
            self._seen = _held(whole)
            self._quota.see(self._seen)
        return whole

    def renew(self, refused: Iterable[Refusal]) -> None:
        """Renew the lease; what guards ``refused`` of the last decision is what the job would have."""
        if self._quota is None:
            return
        wants: dict[str, float] = {}
        for item in refused:
            if item.subject == self._job:
                wants[item.what] = max(item.asked, wants.get(item.what, 0.0))
        if self._actuator is not None and self._actuator.cores.wanted is None:
            # What a job is to begin with is kept for it from those who come later.
            wants["cores"] = self._first
        try:
            self._quota.renew(replace(NOTHING, cores=wants.get("cores", 0.0), memory_bytes=wants.get("memory", 0.0)))
            self._take_first()
        except PenstockError as error:
            self.failure = str(error)
        else:
            self.failure = ""

    def begin(self, plan: RescalePlan, snapshot: ClusterSnapshot, now_ns: int) -> None:
        """Let the job, or its tasks, come to other sizes, which were decided on a snapshot of it; see `turn`."""
        assert self._actuator is not None
        if self._quota is None or not (plan.tasks or plan.applications):
            # Who gets what of the work is no question of a quota.
            self._actuator.begin(self._order(plan, snapshot), now_ns)
            return
        try:
            self._quota.ask(self._held_after(plan, snapshot))
        except PenstockError as error:
            self._refused = str(error)
        else:
            self._asked = plan, snapshot

    def turn(self, now_ns: int) -> ScaleResult | None:
        """Go on with what was begun; return how it has ended, None: it has not, or nothing was begun."""
        actuator, quota = self._actuator, self._quota
        if actuator is None:
            return None
        if self._refused:
            refused, self._refused = self._refused, ""
            return ScaleResult(None, refused)
        try:
            if quota is not None and (held := quota.answer()) is not None:
                if self._asked is None:
                    # Whoever asked was of the plan before.
                    quota.ended(is_done=False)
                    return ScaleResult(None, "the job was changed meanwhile")
                (plan, snapshot), self._asked = self._asked, None
                if (granted := self._granted(plan, held, snapshot)) is None:
                    quota.decline()
                    return ScaleResult(None, OTHERS_TOOK_IT)
                actuator.begin(self._order(granted, snapshot), now_ns)
        except PenstockError as error:
            self._asked = None
            return ScaleResult(None, str(error))
        if actuator.is_idle and (quota is None or not quota.is_asking):
            # The control of the plan before had begun it, and did not come to carry it out.
            return ScaleResult(None, "the job was changed meanwhile")
        result = actuator.turn(now_ns)
        if result is not None and quota is not None:
            quota.ended(is_done=result.failure is None)
        return result

    def _order(self, plan: RescalePlan, snapshot: ClusterSnapshot) -> SizeOrder:
        if plan.applications:
            return order_of_application(plan.applications[0], self._graph, snapshot)
        return order_of(plan, self._graph, snapshot)

    def _held_after(self, plan: RescalePlan, snapshot: ClusterSnapshot) -> Held:
        """Return what the job has once a plan is carried out."""
        held = _held(snapshot)
        if not plan.applications:
            return replace(held, memory_bytes=memory_after(plan, self._graph, snapshot))
        (size, *_) = plan.applications
        memory = wanted_memory(size)
        cores = held.cores if size.cores is None else size.cores
        return Held(cores, held.memory_bytes if memory is None else memory)

    def _granted(self, plan: RescalePlan, held: Held, snapshot: ClusterSnapshot) -> RescalePlan | None:
        """Return the part of a plan that the job may carry out, None: nothing; sizes of tasks belong together."""
        if plan.applications:
            granted = _granted_size(plan.applications[0], held, snapshot)
            return None if granted is None else replace(plan, applications=(granted,))
        return plan if held.memory_bytes >= memory_after(plan, self._graph, snapshot) else None

    def _cores(self, threads: int) -> float:
        """Return the cores that the job has; on a quota, until any were granted, those that are leased at first."""
        if self._actuator is None:
            return float(threads)
        cores = self._actuator.cores
        if cores.wanted is None:
            self._first = self._control.first_cores or float(threads)
            if self._quota is not None:
                return min(self._first, LEAST_CORES * threads)
            cores.wanted = self._first
        return cores.wanted

    def _take_first(self) -> None:
        """Let the job have the cores of the head before, or of those that it is to begin with what others leave."""
        actuator, quota = self._actuator, self._quota
        if actuator is None or actuator.cores.wanted is not None or self._seen is None:
            return
        assert quota is not None
        if quota.view is None:
            return
        before = quota.before
        # A head that was lost before its first cores were granted has left no more than was leased for it.
        wanted = self._first if before is None or before.cores <= self._seen.cores else before.cores
        if not quota.is_asking:
            # Again, if there was no answer: the book could not be had.
            quota.ask(replace(self._seen, cores=wanted))
        elif (granted := quota.answer()) is not None:
            if granted.cores < min(wanted, quota.free_cores) - ROUNDED_CORES:
                # Whoever keeps the book grants nothing yet, or somebody has just given something back.
                quota.decline()
                return
            quota.ended(is_done=True)
            is_all = granted.cores >= wanted - ROUNDED_CORES
            actuator.cores.wanted = wanted if is_all else granted.cores
            if not is_all:
                self._tell(
                    f"it begins with {granted.cores:g} cores instead of {wanted:g}: other jobs have the rest of the "
                    "quota"
                )


def _granted_size(size: ApplicationSize, held: Held, snapshot: ClusterSnapshot) -> ApplicationSize | None:
    """Return the part of a size that the job may have, None: nothing of it."""
    applications, row = snapshot.applications, size.application
    assert applications.cores is not None and applications.memory_bytes is not None
    cores = None if size.cores is None or held.cores == applications.cores[row] else held.cores
    memory = wanted_memory(size)
    memory = None if memory is None or held.memory_bytes == applications.memory_bytes[row] else held.memory_bytes
    granted = ApplicationSize(row, cores, None, memory, size.threads)
    return None if granted == ApplicationSize(row) else granted


def _held(snapshot: ClusterSnapshot) -> Held:
    """Return what the job has, which is the first row of a snapshot."""
    applications = snapshot.applications
    assert applications.cores is not None and applications.memory_bytes is not None
    return Held(float(applications.cores[0]), float(applications.memory_bytes[0]))
