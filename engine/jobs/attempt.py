"""What a recovering job asks of one attempt: to run, to lose a region and to get it back.

`EmbeddedJob` is one, the simulator has another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.core.contract import Clock
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.restore.state_assignment import Restored
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId

Progress = Callable[[JobMetrics], None]


@dataclass(frozen=True, slots=True)
class Struck:
    """Something raised. ``tasks`` are those it struck, None if that cannot be told."""

    error: BaseException
    tasks: frozenset[TaskId] | None


class Attempt(Protocol):
    """One run of a job, from what it was restored from to its end. `stop` and `wake` may be called from any thread."""

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

    def restore(self, tasks: frozenset[TaskId], restored: Restored | None, attempt: int) -> None:
        """Build regions that were taken down anew, from a checkpoint or nothing, under another number."""

    def finish(self) -> None:
        """Close everything, the last checkpoint being committed.

        Raises:
            BugError: the ledger does not add up.
        """

    def stop(self, *, drain: bool = False) -> None:
        """Ask for the end."""

    def wake(self) -> None:
        """Let it look again."""

    def metrics(self) -> JobMetrics:
        """Return a snapshot."""


class MakeAttempt(Protocol):
    """Builds an attempt, ready to run."""

    def __call__(
        self,
        name: str,
        graph: ExecutionGraph,
        options: LoopOptions,
        directory: Path,
        /,
        *,
        clock: Clock,
        restored: Restored | None,
        checkpoints: CheckpointSession,
        attempt: int,
    ) -> Attempt:
        """Build as `EmbeddedJob` does."""
