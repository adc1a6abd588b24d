"""What a sink is told of the job that it takes part in: its name there, files to keep, and the run that writes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class KeptFiles(Protocol):
    """Durable files of one sink, beside the checkpoints of its job. Names begin with a letter or a digit.

    Everywhere:

    Raises:
        RetryableError: the storage failed; trying again may help.
    """

    def write(self, name: str, content: bytes | Iterable[bytes], /) -> int:
        """Write a file, whole or not at all, and return its bytes; once this has returned it is there for good."""

    def chunks(self, name: str, /) -> Iterator[bytes]:
        """Return the bytes of a file, chunk by chunk.

        Raises:
            FileNotFoundError: there is no such file (with the first chunk).
        """

    def list(self) -> Sequence[str]:
        """Return the names of all files, sorted."""

    def delete(self, *names: str) -> None:
        """Delete files; those that do not exist are passed over."""


class OutputRun(Protocol):
    """The run that has the lease of an output."""

    @property
    def number(self) -> int:
        """The run; every later one of the same output has a greater number, as long as its lease is not deleted."""

    @property
    def token(self) -> str:
        """What no other run has, of 16 hexadecimal digits."""

    def check(self) -> None:
        """Make sure that it still has the lease.

        Raises:
            FencedError: another run has taken over.
            RetryableError: the storage failed.
        """


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink is told of the job whose checkpoints it takes part in.

    ``operator`` is the sink's name, which with that of the ``job`` identifies it for good; ``parallelism`` counts its
    instances now. ``accept_duplicates``: the job may go on from a checkpoint although later output is visible already.
    ``accept_changed``: it may go on although what the sink has written was changed or removed since.
    """

    job: str
    operator: str
    parallelism: int
    kept: KeptFiles
    accept_duplicates: bool = False
    accept_changed: bool = False


@dataclass(frozen=True, slots=True)
class RunMark:
    """An `OutputRun` in a process that has no lease: which run it is of. Who has the lease checks it, and commits."""

    number: int
    token: str

    def check(self) -> None:
        """Leave that to the process that has the lease."""
