"""The controllers of one job in its head: they place instances, and see a snapshot of it once a second.

A shell around pure policies: it keeps readings and the memories of the policies. One thread calls it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.part_reading import PartReading
from penstock.engine.control.reading_book import ReadingBook
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.plan import Decision, Placement
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.guarded import Guarded
from penstock.scheduler.placement import PlacementMemory, TaskScheduler

PLACEMENT = "placement"
"""The name of the policy that places instances."""

TICK_NS = 1_000_000_000
"""How often controllers see a snapshot of the job."""

MeasuredCpu = Mapping[str, float]
"""The last measured CPU of an instance of each task, percent of a core, by the task's name."""


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """Where a job is: task managers that may take instances, the process that keeps what it has, places of instances.

    ``silent_s`` is how long ago each task manager was heard.
    """

    managers: Sequence[str]
    caller: str
    places: Mapping[str, str]
    silent_s: Mapping[str, float]


class JobControl:
    """Readings, policies and what they remember, over all attempts of a run."""

    def __init__(
        self, job: str, graph: ExecutionGraph, options: LoopOptions, now_ns: int, log: DecisionLog | None = None
    ) -> None:
        """Begin with nothing measured; with a ``log``, policies that cannot act yet are heard, too."""
        self._graph = graph
        self._book = ReadingBook(job, graph, options, now_ns)
        self._scheduler = Guarded(TaskScheduler(in_turn=True, start_timeout_s=0.0))
        self._memory = self._scheduler.start()
        self._has_decided = False
        self._log = log
        self._tick_ns: int | None = None

    @property
    def due_ns(self) -> int | None:
        """When `tick` is due; None: nothing was read yet."""
        return self._tick_ns

    @property
    def measured_cpu(self) -> MeasuredCpu:
        """The last measured CPU of the tasks that were ever measured."""
        memory: PlacementMemory = self._memory.policy
        known = self._scheduler.policy.known_cpu if isinstance(self._scheduler.policy, TaskScheduler) else {}
        return {**known} | {task: percent for (_, task), percent in memory.cpu.items()}

    def know(self, cpu: MeasuredCpu) -> None:
        """Take the CPU that an earlier run has measured, unless this one has placed instances: it measures itself."""
        if self._has_decided:
            return
        scheduler = self._scheduler.policy
        assert isinstance(scheduler, TaskScheduler)
        self._scheduler = replace(self._scheduler, policy=replace(scheduler, known_cpu=dict(cpu)))

    def hear(self, manager: str, machine: MachineReading, part: PartReading | None, now_ns: int) -> None:
        """Take in the readings of a task manager."""
        self._book.hear(manager, machine, part, now_ns)
        if self._tick_ns is None:
            self._tick_ns = now_ns + TICK_NS

    def forget(self, manager: str) -> None:
        """A task manager is lost."""
        self._book.forget(manager)

    def place(self, job: JobPlaces, now_ns: int) -> Mapping[str, str]:
        """Return task managers for instances that have no place, of those for which there is a figure to choose by."""
        snapshot = self._snapshot(job, now_ns)
        decision = self._decide(snapshot)
        if self._log is not None:
            self._log.sync()
        if not isinstance(decision, Placement):
            return {}
        names = [name for task in self._graph.tasks for name in self._graph.instances(task)]
        return {names[move.instance]: snapshot.machines.name[move.machine] for move in decision.moves}

    def tick(self, job: JobPlaces, now_ns: int) -> None:
        """Let policies see the job as it runs; on what they decide nobody acts."""
        self._tick_ns = now_ns + TICK_NS
        snapshot = self._snapshot(job, now_ns)
        self._decide(snapshot)
        if self._log is not None:
            self._log.recommend(snapshot)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()

    def _decide(self, snapshot: ClusterSnapshot) -> Decision:
        if self._log is not None and not self._has_decided:
            self._log.begin(PLACEMENT, self._scheduler)
        self._has_decided = True
        decision, self._memory = self._scheduler.decide(snapshot, self._memory)
        if self._log is not None:
            self._log.add(snapshot, PLACEMENT, decision)
        return decision

    def _snapshot(self, job: JobPlaces, now_ns: int) -> ClusterSnapshot:
        return self._book.snapshot(job.managers, job.caller, job.places, job.silent_s, now_ns)
