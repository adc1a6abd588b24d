"""The setup of a task manager: all that it needs of a job before it is told which instances it is to host."""

from dataclasses import dataclass

from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.jobs.attempt import AttemptContext
from penstock.engine.restore.compatibility import NOTHING_ALLOWED, AllowedChanges
from penstock.engine.transport.addresses import Transport
from penstock.state.files.durable_files import DurableFiles

TOKEN_BYTES = 32
"""Length of the token of a run."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The checkpoints of a job: the files of its repository, and the run that publishes them.

    ``allowed`` is what a checkpoint may leave behind.
    """

    files: DurableFiles
    run: int
    allowed: AllowedChanges = NOTHING_ALLOWED


@dataclass(frozen=True, slots=True)
class ManagerSetup:
    """The setup of one task manager, of any number.

    ``plan`` is packed by `pack_plan`. ``token`` is known to the task managers of one run only. Without ``storage``
    there are no checkpoints; without ``transport`` the best one is taken that works.
    """

    plan: bytes
    token: bytes
    options: HostOptions
    storage: Storage | None = None
    transport: Transport | None = None


def storage_of(context: AttemptContext) -> Storage | None:
    """Return the checkpoints of a job that has some."""
    if context.checkpoints is None:
        return None
    repository = context.checkpoints.repository
    return Storage(repository.files, repository.run, context.allowed)
