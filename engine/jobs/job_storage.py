"""The storage of a recovering job: its checkpoints, the leases it needs, and a folder for what nobody keeps."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.engine.checkpoint.repository_probe import open_repository
from penstock.engine.checkpoint.run_scratch import RunScratch
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.job_rates import rewind_kept
from penstock.engine.jobs.kept_limits import LimitsFile
from penstock.engine.jobs.kept_memory import MemoryFile
from penstock.engine.jobs.leases import Leases, make_leases
from penstock.engine.jobs.recovery_options import JobEnvironment, RecoveryOptions
from penstock.engine.restore.restorer import with_checkpoints
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.state.checkpoints.repository import CheckpointRepository

Tasks = Collection[TaskId]


@dataclass(frozen=True, slots=True)
class JobStorage:
    """``directory`` is that of the scratch, or of a job without one, in a world that has one run at a time."""

    repository: CheckpointRepository
    leases: Leases
    scratch: RunScratch | None
    directory: Path

    def acquire(self, pause: Callable[[float], None], say: Callable[[str], None], wake: Callable[[], None]) -> None:
        """Come to hold what is not held yet; see `Leases.acquire`.

        Raises:
            InUseError: another run lives.
            FencedError: another run has taken over.
            RetryableError: a storage failed; call again.
        """
        self.leases.acquire(self.repository, pause, say, wake)
        self.leases.check()
        if self.scratch is not None:
            self.scratch.claim()

    def rewind(
        self, context: AttemptContext, graph: ExecutionGraph, restored: RestoredState | None, tasks: Tasks | None
    ) -> None:
        """Let what is kept beside checkpoints go with the one that tasks (None: all) go on from (None: the beginning).

        Raises:
            CheckpointError: what was kept cannot be read.
            RetryableError: the storage failed.
        """
        assert context.checkpoints is not None
        rewind_kept(context.checkpoints, graph, restored, tasks)
        limits = LimitsFile(self.repository.files, self.leases.check)
        context.limits.keep(limits, anew=restored is None, warn=context.warn)
        memory = MemoryFile(self.repository.files, self.leases.check)
        context.memory.keep(memory, graph, anew=restored is None, warn=context.warn)

    def close(self) -> None:
        """Remove the scratch and give the leases back."""
        if self.scratch is not None:
            self.scratch.close()
        self.leases.release()


def open_storage(plan: JobPlan, options: RecoveryOptions, around: JobEnvironment) -> tuple[JobPlan, JobStorage]:
    """Open the repository and try it out; return the plan with its sinks at work beside it, and the storage.

    Raises:
        PlanError: a stateful operator has no name of its own, or a sink cannot take part.
        UserError: the checkpoint directory cannot be used.
    """
    directory = options.checkpoints.directory
    assert directory is not None
    repository, making = around.repository, around.make_leases
    if repository is None:
        repository = open_repository(directory, plan.name)
        making = making or make_leases
    bound = replace(plan, graph=with_checkpoints(plan.graph, plan.name, repository.files, options.restore))
    if making is None:
        return bound, JobStorage(repository, Leases(None, ()), None, plan.directory)
    where = f"{directory.rstrip('/')}/{plan.name}"
    leases = making(plan.name, bound.graph, around.clock, repository.files, where, take_over=options.take_over)
    scratch = RunScratch(plan.directory)
    return bound, JobStorage(repository, leases, scratch, scratch.path)
