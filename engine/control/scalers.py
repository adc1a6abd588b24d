"""The scalers of a running job together: one, or several that decide on different things, over one loop.

One action of a job is in flight at a time, so that they take turns at one actuator.
"""

from collections.abc import Callable, Mapping, Sequence

from penstock.engine.control.cluster_snapshot import NO_OWNERS
from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.job_loop import JobLoop
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.part_reading import PartReading
from penstock.engine.control.reading_book import ReadingBook
from penstock.engine.control.scale_control import Places, ScaleControl, ScaleMemory, ScaleSettings
from penstock.engine.control.whole_job import WholeJob
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners
from penstock.model.scaling_status import ScalingStatus, together
from penstock.scheduler.control_loop import Steering
from penstock.scheduler.ownership import Resource


class Scalers:
    """All scalers over one plan of a job; each looks by its own interval, those that reach further first."""

    def __init__(
        self,
        settings: ScaleSettings,
        items: Sequence[Steering],
        loop: JobLoop,
        graph: ExecutionGraph,
        make_book: Callable[[], ReadingBook],
        log: DecisionLog | None,
    ) -> None:
        """Begin with nothing seen, as ``items`` of a loop; ``make_book`` makes one for the windows of each."""
        self._loop = loop
        ranked = sorted(items, key=lambda item: -item.role.level)
        self.packs = any(item.acts and Resource.TASK_MEMORY in item.role.owns for item in items)
        """Whether one that acts decides on the memory of tasks."""
        self._whole: WholeJob | None = None
        if any(Resource.ALLOCATIONS in item.role.owns for item in items):
            self._whole = WholeJob(graph, settings.control, settings.actuator, settings.quota, settings.tell)
        self._all = [ScaleControl(settings, item, loop, graph, make_book(), log, self._whole) for item in ranked]

    @property
    def status(self) -> ScalingStatus | None:
        """What was decided last, and what became of it; None: nothing was decided yet."""
        return together(self.statuses)

    @property
    def statuses(self) -> list[ScalingStatus]:
        """The same of each that has decided."""
        return [each.status for each in self._all if each.status is not None]

    def memory(self) -> ScaleMemory | None:
        """Return what is remembered, None: nothing was seen."""
        loop = self._loop.memory
        if loop is None:
            return None
        acted_on = {each.name: each.acted_on for each in self._all if each.acted_on is not None}
        status = {each.name: each.status for each in self._all if each.status is not None}
        wanted = {each.name: each.memory for each in self._all}
        loads = {each.name: each.loads for each in self._all}
        return ScaleMemory(loop, acted_on, status, wanted, loads)

    @property
    def task_memory(self) -> Mapping[str, int]:
        """The bytes that each instance of a task is to have once what is being done is."""
        return {task: size for each in self._all for task, size in each.memory.items()}

    @property
    def loads(self) -> Mapping[str, float]:
        """The part of a core's time that each instance of a task takes, while instances are to be spread by that."""
        return {task: load for each in self._all for task, load in each.loads.items()}

    def tick(
        self,
        places: Places,
        latest: Mapping[str, tuple[MachineReading, PartReading | None, int]],
        now_ns: int,
        owners: Mapping[TaskId, Owners] = NO_OWNERS,
    ) -> None:
        """Let those see the job whose time it is; see `ScaleControl.tick`."""
        if self._whole is not None:
            memories = self._loop.state.memories
            self._whole.renew(item for each in self._all for item in memories[each.name].refusals)
        for each in self._all:
            each.tick(places, latest, now_ns, owners)

    def forget(self, manager: str) -> None:
        """A task manager is gone."""
        for each in self._all:
            each.forget(manager)
