"""Operations of a recovering job on one attempt: to run, to lose a region and to get it back.

Whoever runs instances in another way, in other processes or on another clock, implements `Attempt` and hands in a
`MakeAttempt`; `EmbeddedAttempt`, `ManagedAttempt` and `SimulatedAttempt` do.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penstock.engine.checkpoint.run_scratch import RunScratch
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.checkpoint.writer import CutWriter
from penstock.engine.core.contract import Clock
from penstock.engine.core.job_events import Tell, tell_nobody
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import CheckpointPort
from penstock.engine.dataflow.partition_sample import sampling_seed
from penstock.engine.jobs.job_rates import JobRates
from penstock.engine.jobs.manager_orders import ManagerOrders
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.rescale_orders import RescaleOrders
from penstock.engine.jobs.route_orders import RouteOrders
from penstock.engine.jobs.running_cores import RunningCores
from penstock.engine.jobs.running_limits import RunningLimits
from penstock.engine.jobs.running_memory import RunningMemory
from penstock.engine.moves.live_changes import LiveChange
from penstock.engine.moves.move_orders import MoveOrders, MoveSummary
from penstock.engine.plan.regions import struck_by
from penstock.engine.restore.compatibility import NOTHING_ALLOWED, AllowedChanges
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.keep_rates import KeepRates
from penstock.shedding.kept_log import Stretch

LONGEST_WAIT_S = 0.5
"""How long a job sleeps at most. Whoever has something for it wakes it; this is for a wake that never comes."""

Progress = Callable[[JobMetrics], None]


def _log_nothing(stretches: Sequence[Stretch]) -> None:
    """Let checkpoints take what was kept."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job as it is run: by name, its plan, how the loop cuts its work, and the directory for its files."""

    name: str
    graph: ExecutionGraph
    loop: LoopOptions
    directory: Path

    @property
    def sampling_seed(self) -> int:
        """The seed of the samples that stay where rows are shed: the same in every run of the job."""
        return sampling_seed(self.name, self.loop.seed)


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """The environment that all attempts of a job share; without ``scratch`` each has a scratch folder of its own.

    ``checkpoints`` are taken if there is a session for them; ``cut_writer`` then uploads what instances in this process
    contribute, and ``allowed`` is what a checkpoint that is gone on from may leave behind. What attempts put on
    ``resources`` is closed when the job is over. ``warn`` takes what the user is to be told, ``tell`` the job's events.
    ``shed`` has the keep rates that were set last, ``limits`` those of queries and ``memory`` that of operators as
    they were changed, ``cores`` the CPU of task managers, ``moves`` what is to move, ``rescales`` who is to
    have other numbers of instances, ``managers`` which task managers are to come or go, ``routes`` who gets how much of
    rows that may go to any instance. Without checkpoints ``take_stretches`` takes what was kept, once a second and
    before `Attempt.finish` returns.
    """

    clock: Clock
    checkpoints: CheckpointSession | None = None
    cut_writer: CutWriter | None = None
    scratch: RunScratch | None = None
    allowed: AllowedChanges = NOTHING_ALLOWED
    resources: ExitStack = field(default_factory=ExitStack)
    warn: Callable[[str], None] = print
    tell: Tell = tell_nobody
    shed: JobRates = field(default_factory=JobRates)
    limits: RunningLimits = field(default_factory=RunningLimits)
    memory: RunningMemory = field(default_factory=RunningMemory)
    cores: RunningCores = field(default_factory=RunningCores)
    moves: MoveOrders = field(default_factory=MoveOrders)
    rescales: RescaleOrders = field(default_factory=RescaleOrders)
    managers: ManagerOrders = field(default_factory=ManagerOrders)
    routes: RouteOrders = field(default_factory=RouteOrders)
    take_stretches: Callable[[Sequence[Stretch]], None] = _log_nothing


@dataclass(frozen=True, slots=True)
class Struck:
    """Something raised. ``tasks`` are those it struck, None if that cannot be told."""

    error: BaseException
    tasks: frozenset[TaskId] | None


@dataclass(frozen=True, slots=True)
class LiveDone:
    """A change of parallelism that a running attempt has come to: the moves it took, by task, and how long all did.

    So many ``partitions`` of sources have changed their instances.
    """

    moves: Mapping[str, MoveSummary]
    took_ms: float
    partitions: int = 0


def struck_by_commit(checkpoints: CheckpointSession, graph: ExecutionGraph) -> Struck | None:
    """Return what a sink that could not commit has struck, once; None: none has failed since this was asked last."""
    failure = checkpoints.take_failure()
    return None if failure is None else Struck(failure.error, struck_by(graph, failure.sink))


class Attempt(CheckpointPort, Protocol):
    """One run of a job, from what it was restored from to its end. `stop` and `wake` may be called from any thread.

    Once its instances are built it tells the session that they have `started`, and brings their reports to it.
    """

    drained: bool
    at_end: bool
    """Whether all input of the run was read and its windows stay open for a later one."""

    def proceed(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        """Let all that is up run until ``until`` says so, something raises, or the last checkpoint is committed.

        Time alone may make ``until`` true from ``until_ns`` (monotonic) on.
        """

    def is_up(self) -> bool:
        """Return whether there is an instance that was neither taken down nor finished."""

    def take_down(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """End the instances of whole regions (None: all) because of an error, and release what they hold.

        Their checkpoints end with them. What goes wrong with that becomes a note to the error.
        """

    def restore(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        """Build regions that were taken down anew."""

    def finish(self) -> None:
        """Close everything, the last checkpoint being committed.

        Raises:
            BugError: the ledger does not add up.
        """

    def stop(self, *, drain: bool = False) -> None:
        """Ask for the end."""

    def wake(self) -> None:
        """Let it look again."""

    def set_keep(self, rates: KeepRates) -> None:
        """Let sources keep these shares of their records from the next read on; those not named keep all.

        By the thread that runs the attempt, between two steps. The first call arms the job: from then on what is kept
        is logged. Regions that are restored, and attempts that follow, begin with the rates that were set last.

        Raises:
            BugError: a rate is of nothing that may be shed, or out of its range, or of a branch.
        """

    def change_live(self, change: LiveChange | None, done: Callable[[LiveDone], None]) -> ExecutionGraph | None:
        """Begin to come to another plan while all runs, and return it; None: it cannot, and all must begin anew.

        Without ``change`` it is one with instances at all task managers that have come. By the thread that runs the
        attempt, which ``done`` is called by at the end. Tasks that are taken down before it begin anew by the plan that
        it leads to, and ``done`` is not called.
        """

    def metrics(self) -> JobMetrics:
        """Return a snapshot."""

    def places(self) -> Mapping[str, str]:
        """Return the task manager of each instance that is up, by the instance's name; {}: all are in this process."""


class MakeAttempt(Protocol):
    """Builds an attempt, ready to run."""

    def __call__(self, plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> Attempt:
        """Build all instances of the plan; what was opened is released if that raises."""
