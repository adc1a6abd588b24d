"""The contract of a link: what carries the elements of many channels between two task managers, both ways, in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.engine.core.elements import Element
from penstock.engine.transport.batch_body import Body
from penstock.engine.transport.picked_rows import Picks


@dataclass(frozen=True, slots=True)
class Arrived:
    """An element of a channel that came from the other side; of a batch its rows, and the credit that it took."""

    channel: int
    element: Element
    rows: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Granted:
    """Bytes of credit that the other side gave back."""

    channel: int
    size: int


@dataclass(frozen=True, slots=True)
class StateArrived:
    """A part of what an instance on the other side gives to one here."""

    content: pa.Buffer


Arrival = Arrived | Granted | StateArrived


class Link(Protocol):
    """One end. It belongs to the thread of the loop, which calls `receive` and `flush` between two steps.

    No call waits. What cannot leave yet waits in the link: the credit of the channels bounds it. A link that is lost
    takes no call amiss: `receive` alone says so, once everything that came whole has been received.
    """

    def fileno(self) -> int:
        """Return what becomes readable when something has come."""

    def send(self, channel: int, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        """Send an element; see `Deliver`. The batch must not change any more."""

    def send_state(self, body: Body, size: int, *, more: bool) -> None:
        """Send a part of what a move hands over, the first ``size`` bytes of a body, which must not change any more.

        No credit bounds it: one move at a time does. ``more``: another part of it follows.
        """

    def grant(self, channel: int, size: int) -> None:
        """Give credit back."""

    def flush(self) -> None:
        """Let what was sent leave as far as there is room."""

    def has_unsent(self) -> bool:
        """Return whether something could not leave yet; it can when the other side has received.

        Once both sides have ended, and this is false, closing loses nothing.
        """

    def is_blocked(self) -> bool:
        """Return whether what could not leave waits for the descriptor to become writable."""

    def carries_state(self) -> bool:
        """Return whether what a move hands over waits for room, or has not come whole, or more of it is to come."""

    def passed(self) -> int:
        """Return a number that grows whenever something has left or come."""

    def receive(self) -> Sequence[Arrival]:
        """Return what has come, in order.

        Raises:
            WorkerLostError: the other side is gone without having said that it ends.
        """

    def end(self) -> None:
        """Tell the other side that no element will be sent any more; what it sends is still received."""

    def has_ended(self) -> bool:
        """Return whether the other side has said so; all elements that it sent are received then."""

    def close(self) -> None:
        """Let go of everything."""
