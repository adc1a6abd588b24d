"""The status of a job at one moment: in which state of its life it is, and what brought it there."""

from dataclasses import dataclass

from penstock.model.errors import WorkerLeftError


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job at one moment; ``state`` is the name of a `JobState` in lower case.

    ``attempt`` counts its starts in this run, the first is 1; 0 before. ``error`` is what it failed of last, None if it
    has not failed. ``restored_epoch``: the checkpoint that the last attempt began from; None: the beginning.
    ``takes_checkpoints``: whether it can be asked for a savepoint.
    """

    name: str
    state: str
    attempt: int
    error: str | None = None
    restored_epoch: int | None = None
    takes_checkpoints: bool = False


def error_sentence(error: BaseException | None) -> str | None:
    """Return an error as a line of text; None for none. That a task manager has left as it was told to is none."""
    if error is None:
        return None
    return str(error) if isinstance(error, WorkerLeftError) else f"{type(error).__name__}: {error}"
