"""The error of a job whose sink could not commit, and what is said of errors of checkpoints."""

from dataclasses import dataclass

from penstock.model.errors import BugError, FencedError, PenstockError


@dataclass(frozen=True, slots=True)
class SinkFailure:
    """A commit failed; ``sink`` is the name of the one that could not, None if it was none of them."""

    sink: str | None
    error: BaseException


def fail_for_good(error: BaseException | None) -> None:
    """End the attempt if the next checkpoint would fail as this one did: by a bug, or as the lease is lost."""
    if isinstance(error, BugError | FencedError):
        raise error


def reason_of(error: BaseException | None) -> str:
    """Return what is said of an error in a sentence."""
    return str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
