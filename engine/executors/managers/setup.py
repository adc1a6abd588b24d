"""The setup of a task manager: all that it needs of a job before it is told which instances it is to host."""

import pickle
from dataclasses import dataclass

import cloudpickle

from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.restore.compatibility import NOTHING_ALLOWED, AllowedChanges
from penstock.engine.transport.meeting import Transport
from penstock.state.files.durable_files import DurableFiles


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


def pack_setup(setup: ManagerSetup) -> bytes:
    """Return a setup as bytes, for a process that this one has started."""
    packed: bytes = cloudpickle.dumps(setup)
    return packed


def unpack_setup(packed: bytes) -> ManagerSetup:
    """Return what `pack_setup` packed; only for bytes that came over a link to the process that started this one."""
    setup: ManagerSetup = pickle.loads(packed)
    return setup
