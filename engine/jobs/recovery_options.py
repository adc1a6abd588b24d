"""Options of a recovering job: the user's choices, and the job's environment."""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.engine.core.background import Background
from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock
from penstock.engine.core.job_events import Tell, tell_nobody
from penstock.engine.jobs.leases import MakeLeases
from penstock.engine.restore.restorer import LATEST, RestoreFrom
from penstock.model.config import CheckpointOptions, RestartOptions
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.stores.page_store import PageStores


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """The user's options of a job that recovers; ``checkpoints`` has a directory. ``version`` is this program's.

    ``savepoint_on_stop`` names a savepoint to keep of the last checkpoint. ``says_end``: say at the end what became of
    windows. With ``take_over`` another run that lives is fenced.
    """

    checkpoints: CheckpointOptions
    restarts: RestartOptions
    version: str
    restore: RestoreFrom = LATEST
    savepoint_on_stop: str | None = None
    says_end: bool = False
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """The environment of a job; the simulator hands in another. None: as it is in a process of its own.

    ``warn`` takes what the user is to be told, ``tell`` the events of the job for whoever watches. ``pause`` lets at
    most so many seconds pass while nothing runs. With a ``repository`` and no ``make_leases`` nothing is leased: its
    world has one run at a time.
    """

    clock: Clock = field(default_factory=SystemClock)
    warn: Callable[[str], None] = print
    tell: Tell = tell_nobody
    repository: CheckpointRepository | None = None
    background: Background | None = None
    pause: Callable[[float], None] | None = None
    page_stores: PageStores | None = None
    make_leases: MakeLeases | None = None
