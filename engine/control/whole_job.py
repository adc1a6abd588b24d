"""The size of a whole job, for who sizes applications: what it has and uses, and how another size comes about.

Where jobs share a quota, more is asked for before it is taken. The shell of `application_use`, `quota_share` and
`scale_actuator`; it belongs to the thread of the job's head.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.engine.control.application_orders import order_of_application, wanted_memory
from penstock.engine.control.application_use import with_use
from penstock.engine.control.machine_load import MachineWindow
from penstock.engine.control.quota_share import NOTHING, Held, QuotaShare
from penstock.engine.control.scale_actuator import ScaleActuator, ScaleResult
from penstock.model.control import Control
from penstock.model.errors import PenstockError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.plan import ApplicationSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.limits import Refusal

OTHERS_TOOK_IT = "other jobs have what there was of the quota"


class WholeJob:
    """One plan of a job."""

    def __init__(
        self, graph: ExecutionGraph, control: Control, actuator: ScaleActuator | None, quota: QuotaShare | None
    ) -> None:
        """Begin with nothing seen; without an ``actuator`` it is only looked at, without ``quota`` it has its own."""
        self._graph, self._control, self._actuator, self._quota = graph, control, actuator, quota
        self._job = ""
        self._granted: tuple[ApplicationSize, ClusterSnapshot] | None = None
        self._refused = ""
        self.failure = ""
        """Why it is not known what others have, "" if it is."""

    @property
    def is_known(self) -> bool:
        """Whether it may be decided on: it is known what others have."""
        return self._quota is None or (self._quota.view is not None and not self.failure)

    def seen(
        self, snapshot: ClusterSnapshot, windows: Mapping[str, MachineWindow], managers: Collection[str]
    ) -> ClusterSnapshot:
        """Return a snapshot with what the job has and uses, and what others have."""
        threads, own = max(1, len(managers)), [windows[name] for name in managers if name in windows]
        others = () if self._quota is None else self._quota.others
        whole = with_use(snapshot, own, self._cores(threads), threads, others)
        self._job = whole.applications.name[0]
        if self._quota is not None:
            assert whole.applications.cores is not None and whole.applications.memory_bytes is not None
            self._quota.see(Held(float(whole.applications.cores[0]), float(whole.applications.memory_bytes[0])))
        return whole

    def renew(self, refused: Collection[Refusal]) -> None:
        """Renew the lease; what guards ``refused`` of the last decision is what the job would have."""
        if self._quota is None:
            return
        wants = {item.what: item.asked for item in refused if item.subject == self._job}
        try:
            self._quota.renew(replace(NOTHING, cores=wants.get("cores", 0.0), memory_bytes=wants.get("memory", 0.0)))
        except PenstockError as error:
            self.failure = str(error)
        else:
            self.failure = ""

    def begin(self, size: ApplicationSize, snapshot: ClusterSnapshot, now_ns: int) -> None:
        """Let the job come to another size, which was decided on a snapshot of it; see `turn`."""
        assert self._actuator is not None
        if self._quota is None:
            self._actuator.begin(order_of_application(size, self._graph, snapshot), now_ns)
            return
        applications = snapshot.applications
        assert applications.cores is not None and applications.memory_bytes is not None
        memory = wanted_memory(size)
        cores = float(applications.cores[size.application]) if size.cores is None else size.cores
        held = Held(cores, float(applications.memory_bytes[size.application]) if memory is None else memory)
        try:
            self._quota.ask(held)
        except PenstockError as error:
            self._refused = str(error)
        else:
            self._granted = size, snapshot

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
                if self._granted is None:
                    # Whoever asked was of the plan before.
                    quota.ended(is_done=False)
                    return ScaleResult(None, "the job was changed meanwhile")
                (size, snapshot), self._granted = self._granted, None
                if (granted := _granted(size, held, snapshot)) is None:
                    quota.ended(is_done=False)
                    return ScaleResult(None, OTHERS_TOOK_IT)
                actuator.begin(order_of_application(granted, self._graph, snapshot), now_ns)
        except PenstockError as error:
            self._granted = None
            return ScaleResult(None, str(error))
        result = actuator.turn(now_ns)
        if result is not None and quota is not None:
            quota.ended(is_done=result.failure is None)
        return result

    def _cores(self, threads: int) -> float:
        """Return the cores that the job has; at first those of its lease before, or those that it is to begin with."""
        if self._actuator is None:
            return float(threads)
        cores = self._actuator.cores
        if cores.wanted is None:
            quota, first = self._quota, self._control.first_cores or float(threads)
            if quota is not None and quota.view is None:
                return first
            before = None if quota is None else quota.before
            cores.wanted = first if before is None else before.cores
        return cores.wanted


def _granted(size: ApplicationSize, held: Held, snapshot: ClusterSnapshot) -> ApplicationSize | None:
    """Return the part of a size that the job may have, None: nothing of it."""
    applications, row = snapshot.applications, size.application
    assert applications.cores is not None and applications.memory_bytes is not None
    cores = None if size.cores is None or held.cores == applications.cores[row] else held.cores
    memory = wanted_memory(size)
    memory = None if memory is None or held.memory_bytes == applications.memory_bytes[row] else held.memory_bytes
    granted = ApplicationSize(row, cores, None, memory, size.threads)
    return None if granted == ApplicationSize(row) else granted
