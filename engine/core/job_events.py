"""Events in the life of a job, as whoever watches it is told of them: small facts, each a frozen value.

A job tells each at once, in the thread that it runs in; who takes them must not wait there.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The job went from one state to another, by the names of `JobState` in lower case; ``error`` is what it failed of.

    ``error`` None: it does not fail.
    """

    before: str
    after: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    """A checkpoint is complete, and all sinks have committed it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class CheckpointFailed:
    """A checkpoint was given up."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """Tasks run again after a failure, from a checkpoint (None: from the beginning).

    ``tasks`` are the names of those that began again; () stands for the whole job.
    """

    tasks: tuple[str, ...]
    epoch: int | None
    error: str


@dataclass(frozen=True, slots=True)
class TaskManagerJoined:
    """A task manager can be given instances."""

    task_manager: str


@dataclass(frozen=True, slots=True)
class TaskManagerLost:
    """A task manager is gone, and what ran on it."""

    task_manager: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """A worker loop has been in one step for long; ``text`` says where, as far as that is known."""

    task_manager: str
    text: str


@dataclass(frozen=True, slots=True)
class WellAgain:
    """A worker loop that was stuck goes on."""

    task_manager: str
    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A line that the job's user is told on standard error."""

    text: str


JobEvent = (
    StateChanged
    | CheckpointCommitted
    | CheckpointFailed
    | Restarted
    | TaskManagerJoined
    | TaskManagerLost
    | Stuck
    | WellAgain
    | Notice
)

Tell = Callable[[JobEvent], None]
"""Takes an event, from any thread, and never makes the job wait."""


def tell_nobody(event: JobEvent) -> None:
    """Let an event go: nobody watches."""
