"""The values that go between a job's driver, its head actor, and whoever asks after the job."""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.engine.executors.managers.failures import Failure
from penstock.engine.executors.ray.worker_home import WorkerHome
from penstock.engine.jobs.metrics import JobMetrics
from penstock.http_api.access import Tokens
from penstock.runs.job_start import EndOfInput
from penstock.runs.run_options import RunOptions


@dataclass(frozen=True, slots=True)
class JobOrder:
    """A job as its head actor is to run it; the plan lies with the notes of the job, by ``token``.

    ``home`` is that of the driver; ``since_us`` is when the job was submitted, by the driver's clock on the wall.
    ``tokens`` of its HTTP API are as the driver has read them.
    """

    name: str
    token: str
    options: RunOptions
    end: EndOfInput
    home: WorkerHome
    since_us: int
    tokens: Tokens = field(default=Tokens(), repr=False)


class HeadState(StrEnum):
    """The state of a job as its head has it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """True if nothing follows."""
        return self in (HeadState.DONE, HeadState.STOPPED, HeadState.FAILED)


@dataclass(frozen=True, slots=True)
class StopOrder:
    """An order to stop: ``drain`` ends the inputs first, ``savepoint`` keeps the last checkpoint by this name."""

    drain: bool = False
    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class HeadReport:
    """A job at one moment. ``head`` counts its heads, the first is 1; ``lines`` are those of this head from the number
    that was asked for on, ``next_line`` is the number of the line that comes next. ``failure``: what it failed of.
    """

    name: str
    state: HeadState
    since_us: int
    head: int
    metrics: JobMetrics
    lines: tuple[str, ...] = ()
    next_line: int = 0
    failure: Failure | None = None
    metrics_url: str | None = None
