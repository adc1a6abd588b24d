"""What is asked of the HTTP API and what it answers, as values; JSON has their fields. The client reads the same ones.

Times end with their unit: ``_ns`` nanoseconds, ``_us`` microseconds since 1970 UTC.
"""

from dataclasses import dataclass
from typing import Literal

from penstock.engine.checkpoint.metrics import CheckpointMetrics
from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.metrics import RouteMetrics
from penstock.engine.jobs.rescale_orders import RescaleRecord
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.engine.moves.move_orders import MoveRecord
from penstock.engine.moves.under_way import ChangeUnderWay
from penstock.model.control import Limits, QueryLimit, limits_of
from penstock.model.scaling_status import ScalingStatus
from penstock.model.shedding_status import SheddingStatus

State = Literal["created", "restoring", "running", "failing", "restarting", "stopping", "finished", "failed"]

ErrorCode = Literal[
    "no_token",
    "wrong_scope",
    "no_actions",
    "foreign_request",
    "unknown_path",
    "wrong_method",
    "bad_request",
    "too_long",
    "refused",
    "not_begun",
    "too_many",
    "failed",
]


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """A job in short.

    ``attempt`` counts its starts in this run. ``error`` is what it failed of last; null: nothing. ``restored_epoch`` is
    the checkpoint that the attempt began from, ``last_epoch`` the last that was committed; null: none. ``elapsed_ns``
    is the time of the attempt. ``takes_checkpoints``: it can be asked for savepoints; ``takes_actions``: there is a
    token for actions. ``watchers`` read its events; ``dropped_watchers`` were too slow to.
    """

    job: str
    version: str
    state: State
    attempt: int
    error: str | None
    restored_epoch: int | None
    last_epoch: int | None
    restarts: int
    elapsed_ns: int
    source_rows: int
    state_bytes: int
    late_rows: int
    dead_letters: int
    shed_rows: int
    shedding: SheddingStatus | None
    scaling: ScalingStatus | None
    takes_checkpoints: bool
    takes_actions: bool
    watchers: int
    dropped_watchers: int


@dataclass(frozen=True, slots=True)
class GraphOperator:
    """An operator of the plan; ``kind`` is the noun of its specification, ``where`` the user's file and line."""

    name: str
    kind: str
    where: str


@dataclass(frozen=True, slots=True)
class GraphTask:
    """Operators that run together, producers first, in so many instances.

    ``resources`` is what each of these needs beyond a core, by the names that Ray has for it; empty: nothing.
    """

    name: str
    operators: tuple[str, ...]
    parallelism: int
    resources: dict[str, float]


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An input of an operator; ``chained``: rows are handed over inside a task, and not through a channel."""

    producer: str
    output: str
    consumer: str
    port: int
    exchange: str
    chained: bool


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """The plan of a job; operators and tasks are known by their names."""

    job: str
    operators: tuple[GraphOperator, ...]
    tasks: tuple[GraphTask, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(frozen=True, slots=True)
class InstanceAnswer:
    """An instance: where it runs (null: in the one process of the job), where its time went, how far it is.

    ``key_groups`` is how many it has; null: it has no state that lies by key, or the job is in one process.
    """

    name: str
    task: str
    instance: int
    task_manager: str | None
    time: TimeSpent
    watermark_us: int | None
    waiting_bytes: int
    key_groups: int | None


@dataclass(frozen=True, slots=True)
class InstancesAnswer:
    """All instances of a job, and the change of places that is under way; null: there is none."""

    job: str
    instances: tuple[InstanceAnswer, ...]
    change: ChangeUnderWay | None


@dataclass(frozen=True, slots=True)
class CheckpointsAnswer:
    """The checkpoints of a job since its run began; null: it takes none."""

    job: str
    checkpoints: CheckpointMetrics | None


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Ask a job to stop at a last checkpoint.

    With ``drain`` open windows are closed first; ``savepoint`` is the name by which the checkpoint is kept.
    """

    drain: bool = False
    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class LimitsRequest:
    """Change limits from the next cycle of the controllers on; null: what holds stays.

    ``shed`` is the policy that sheds load, ``off``: none; ``query`` one whose ``min_accuracy`` in [0, 1],
    ``max_error`` above 0 and below 1, and ``priority`` change. ``reset`` takes back what was changed before: of the
    query, or all.
    """

    shed: str | None = None
    query: str | None = None
    min_accuracy: float | None = None
    priority: int | None = None
    max_error: float | None = None
    reset: bool = False

    def change(self) -> Limits:
        """Return it as the job takes it.

        Raises:
            OptionError: there is nothing to change, or it is not said of which query.
        """
        values = (self.shed, self.query, self.min_accuracy, self.priority, self.max_error)
        return limits_of(*values, reset=self.reset)


@dataclass(frozen=True, slots=True)
class LimitsAnswer:
    """The limits that differ from those of the program; ``shed`` null: as it was started."""

    job: str
    shed: str | None
    queries: dict[str, QueryLimit]


@dataclass(frozen=True, slots=True)
class StopAnswer:
    """The job was told to stop; its events say when it has ended."""

    job: str


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """Ask for a savepoint of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class SavepointAnswer:
    """A savepoint; ``epoch`` null: it is not committed yet."""

    job: str
    name: str
    epoch: int | None


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """A request that was not done: of which kind the reason is, and a sentence that says it."""

    code: ErrorCode
    error: str


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """Ask that all key groups of an instance go to instances of its task at a task manager, both by their names."""

    instance: str
    task_manager: str


@dataclass(frozen=True, slots=True)
class MoveAnswer:
    """A move that was asked for, by its number in `MovesAnswer`."""

    job: str
    number: int


@dataclass(frozen=True, slots=True)
class MovesAnswer:
    """The last moves of a job, the oldest first."""

    job: str
    moves: tuple[MoveRecord, ...]


@dataclass(frozen=True, slots=True)
class RescaleRequest:
    """Ask for so many instances of operators, by their names; with ``dry_run`` only what would change is answered."""

    parallelism: dict[str, int]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RescaleAnswer:
    """The plan that a change would lead to, and its number in `RescalesAnswer`; null: it was not asked for."""

    job: str
    number: int | None
    preview: RescalePreview


@dataclass(frozen=True, slots=True)
class RescalesAnswer:
    """The last changes of a job's parallelism, the oldest first."""

    job: str
    rescales: tuple[RescaleRecord, ...]


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """Ask that instances of an operator get these shares of the rows that may go to any; (): rows go in turns."""

    operator: str
    shares: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteAnswer:
    """The shares that hold from the next batch on, by operator; together 1."""

    job: str
    shares: dict[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class RoutesAnswer:
    """The rows of a job that may go to any instance: who is to get how much, and how much each got."""

    job: str
    routes: tuple[RouteMetrics, ...]


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """Ask that operators, by name, have so many bytes of memory in each instance; null: as the program says.

    With ``dry_run`` nothing changes.
    """

    budgets: dict[str, int | None]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The memory of operators, before a change and after it."""

    job: str
    memory: MemorySummary


@dataclass(frozen=True, slots=True)
class TaskManagersRequest:
    """Ask for so many task managers (``wanted``), or that one leaves for good (``drain``)."""

    wanted: int | None = None
    drain: str | None = None


@dataclass(frozen=True, slots=True)
class TaskManagersAnswer:
    """How many task managers are wanted, which instances can be given to, and which leave."""

    job: str
    task_managers: TaskManagers
