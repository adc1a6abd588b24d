"""Channels over a link: halves whose other halves are in another task manager, by the numbers of their channels."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from penstock.engine.core.elements import Element
from penstock.engine.transport.batch_body import Body
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.engine.transport.link import Arrived, Link, StateArrived
from penstock.engine.transport.picked_rows import Picks
from penstock.model.errors import BugError

PORTIONS = 8
"""Credit goes back in portions of an eighth of a channel's capacity: a frame for each batch would say little more."""


class LinkedChannels:
    """The halves on this side of a link. Both sides number a channel alike.

    ``sent`` and ``received`` count the elements that were put into the link on this side, and that came out of it.
    """

    def __init__(self, link: Link) -> None:
        """Begin without channels."""
        self.link = link
        self.sent = 0
        self.received = 0
        self._senders: dict[int, SendingHalf] = {}
        self._receivers: dict[int, ReceivingHalf] = {}
        self._ungranted: dict[int, int] = {}
        self.on_state: Callable[[pa.Buffer], None] = _nobody_takes
        """Takes what instances on the other side give to those here, in parts; set by whoever has these."""

    def sender(self, channel: int, name: str, capacity_bytes: int) -> SendingHalf:
        """Make the sending half of a channel whose receiving half is on the other side."""
        half = self._senders[channel] = SendingHalf(name, capacity_bytes, partial(self._send, channel))
        return half

    def receiver(self, channel: int, name: str, capacity_bytes: int) -> ReceivingHalf:
        """Make the receiving half of a channel whose sending half is on the other side."""
        half = self._receivers[channel] = ReceivingHalf(name)
        self._ungranted[channel] = 0
        half.join(partial(self._grant, channel, capacity_bytes // PORTIONS))
        return half

    def turn(self) -> bool:
        """Bring what has come to its halves and let what was sent leave; return whether something has come.

        The loop calls it between two steps.

        Raises:
            WorkerLostError: the other side is gone; everything that it had sent whole was brought before.
        """
        arrivals = self.link.receive()
        for arrival in arrivals:
            if isinstance(arrival, Arrived):
                self.received += 1
                self._receivers[arrival.channel].accept(arrival.element, None, arrival.rows, arrival.size)
            elif isinstance(arrival, StateArrived):
                self.received += 1
                self.on_state(arrival.content)
            else:
                self._senders[arrival.channel].add_credit(arrival.size)
        self.link.flush()
        return bool(arrivals)

    def send_state(self, body: Body, size: int, *, more: bool) -> None:
        """Send a part of what an instance gives to one on the other side; see `Link.send_state`."""
        self.sent += 1
        self.link.send_state(body, size, more=more)

    def _send(self, channel: int, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        self.sent += 1
        self.link.send(channel, element, picks, rows, size)

    def _grant(self, channel: int, portion: int, size: int) -> None:
        ungranted = self._ungranted[channel] + size
        if ungranted and ungranted >= portion:
            self.link.grant(channel, ungranted)
            ungranted = 0
        self._ungranted[channel] = ungranted


def _nobody_takes(content: pa.Buffer) -> None:
    raise BugError("state of a move came over a link whose channels nobody has taken over")
