"""The error of a job whose sink could not commit."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SinkFailure:
    """A commit failed; ``sink`` is the name of the one that could not, None if it was none of them."""

    sink: str | None
    error: BaseException
