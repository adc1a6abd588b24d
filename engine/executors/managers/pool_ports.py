"""What a pool of task managers needs of whoever starts them, and of whoever carries its messages."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from penstock.engine.executors.managers.delivery import Ends

End = TypeVar("End")
"""This side's end of a control link, as a launcher hands it over: a socket, or the future of one."""

NewEnd = TypeVar("NewEnd", covariant=True)
TakenEnd = TypeVar("TakenEnd", contravariant=True)


class Launcher(Protocol[NewEnd]):
    """Starts, watches and ends the processes of task managers."""

    def start(self, name: str) -> NewEnd:
        """Start one; return this side's end of its control link."""

    def survivors(self) -> Mapping[str, NewEnd]:
        """Reach those that have outlived the head before: return this side's ends of control links to them, by name."""

    def has_room(self) -> bool:
        """Return whether there is room now for one that there was none for; False if that cannot be seen."""

    def ended(self, name: str, patience_s: float = 0.0) -> str | None:
        """Return how it has ended, in words; None: it lives, or did not end within so many seconds."""

    def cpu_ns(self, name: str) -> int | None:
        """Return the time that it has used on any core; None if it cannot be seen."""

    def forget(self, name: str) -> None:
        """Let go of one, which is killed if it lives."""

    def close(self, grace_s: float) -> None:
        """End all; those that do not end themselves in time are killed."""


class Plane(Protocol[TakenEnd]):
    """Control links by the name of their other end; see `ControlPlane`."""

    def add(self, end: TakenEnd, ends: Ends, /) -> None:
        """Take over an end; it is closed with its link."""

    def send(self, there: str, body: bytes) -> None:
        """Send a message; one to a link that is gone goes nowhere."""

    def heard_ns(self, there: str) -> int | None:
        """Return when the other end of a link was last heard, None if the link is gone."""

    def remove(self, there: str) -> None:
        """Close a link."""

    def close(self) -> None:
        """Close all, once what was sent has left."""
