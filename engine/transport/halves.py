"""The two halves of a channel: what the producer's side knows of it, and what the consumer's side does.

Neither holds the other. The call that a sender delivers by and the call that a receiver returns credit by join them:
`in_memory` makes them calls of the other half.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from penstock.engine.core.elements import Batch, Element, Watermark, part_of_sic
from penstock.engine.transport.picked_rows import Picks, put_together

Deliver = Callable[[Element, Picks | None, int, int], None]
"""Brings an element to the receiving half: of a batch only the rows of the picks, if given; its rows and its bytes."""


class FullSenders:
    """The number of sending halves of one output that have no credit."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        """Begin with none."""
        self.count = 0


class WaitingInput:
    """Input that waits in the receiving halves of one gate: rows, bytes, and control elements other than watermarks."""

    __slots__ = ("bytes", "rows", "signals")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.rows = 0
        self.bytes = 0
        self.signals = 0


class SendingHalf:
    """The half into which a producer instance puts elements.

    Bounded by credit, in bytes: a batch may be put while some is left, so one batch may exceed it. Control elements
    always have room. ``on_credit`` tells the loop to look at the producer again.
    """

    __slots__ = ("_deliver", "_full", "credit_bytes", "name", "on_credit", "sent_rows")

    def __init__(self, name: str, credit_bytes: int, deliver: Deliver) -> None:
        """Begin with the credit of an empty channel."""
        self.name = name
        self.credit_bytes = credit_bytes
        self.sent_rows = 0
        self.on_credit: Callable[[], None] = _nobody
        self._deliver = deliver
        self._full = FullSenders()

    def join(self, full: FullSenders) -> None:
        """Count among the halves of an output."""
        self._full = full
        full.count += self.credit_bytes <= 0

    def has_room(self) -> bool:
        """Return whether a batch may be put."""
        return self.credit_bytes > 0

    def put(self, element: Element, picks: Picks | None = None) -> None:
        """Send an element; of a batch only the rows numbered in ``picks``, if given."""
        if isinstance(element, Batch):
            rows = element.rows.num_rows if picks is None else int(picks.size)
            size = element.rows.nbytes * rows // max(1, element.rows.num_rows)
            self.sent_rows += rows
            self._full.count += self.credit_bytes - size <= 0 < self.credit_bytes
            self.credit_bytes -= size
            self._deliver(element, picks, rows, size)
        else:
            self._deliver(element, picks, 0, 0)

    def add_credit(self, size: int) -> None:
        """Take in that so many bytes were taken out of the channel."""
        self._full.count -= self.credit_bytes <= 0 < self.credit_bytes + size
        self.credit_bytes += size
        self.on_credit()


class ReceivingHalf:
    """The first-in-first-out queue that an input gate takes elements from.

    It takes in whatever arrives: the credit of the sender bounds it. ``on_arrival`` tells its gate.
    """

    __slots__ = (
        "_in_gate",
        "_queue",
        "_return_credit",
        "name",
        "on_arrival",
        "received_rows",
        "waiting_bytes",
        "waiting_rows",
    )

    def __init__(self, name: str) -> None:
        """Begin empty, with nobody to return credit to."""
        self.name = name
        self.waiting_bytes = 0
        self.waiting_rows = 0
        self.received_rows = 0
        self.on_arrival: Callable[[], None] = _nobody
        self._queue: deque[tuple[Element, Picks | None, int]] = deque()
        self._return_credit: Callable[[int], None] = _keep
        self._in_gate = WaitingInput()

    def join(self, return_credit: Callable[[int], None]) -> None:
        """Return the bytes of what is taken to the sending half by this call, from now on."""
        self._return_credit = return_credit

    def count_in(self, waiting: WaitingInput) -> None:
        """Count what waits here together with what waits in the other halves of a gate."""
        waiting.rows += self._in_gate.rows
        waiting.bytes += self._in_gate.bytes
        waiting.signals += self._in_gate.signals
        self._in_gate = waiting

    def __len__(self) -> int:
        return len(self._queue)

    def shares(self) -> Iterator[tuple[Element, Picks | None]]:
        """Look at the waiting elements with the rows that are meant, oldest first, without taking them."""
        return ((element, picks) for element, picks, _ in self._queue)

    def accept(self, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        """Append an element that arrives; see `Deliver`."""
        if isinstance(element, Batch):
            self._add_waiting(rows, size)
        elif not isinstance(element, Watermark):
            self._in_gate.signals += 1
        self._queue.append((element, picks, size))
        self.on_arrival()

    def take_share(self, most_rows: int | None = None) -> tuple[Element, Picks | None]:
        """Remove the oldest element and return it with the rows that are meant; the queue must not be empty.

        Of a batch with more than ``most_rows`` rows (at least 1) only the first ones; the others go on waiting.
        """
        element, picks, size = self._queue.popleft()
        if isinstance(element, Batch):
            rows = element.rows.num_rows if picks is None else int(picks.size)
            if most_rows is not None and rows > most_rows:
                if picks is None:
                    picks = np.arange(rows, dtype=np.int32)
                rest = size * (rows - most_rows) // rows
                left = element
                if element.sic:
                    left = replace(element, sic=part_of_sic(element.sic, rows - most_rows, rows))
                    element = replace(element, sic=part_of_sic(element.sic, most_rows, rows))
                self._queue.appendleft((left, picks[most_rows:], rest))
                picks, size, rows = picks[:most_rows], size - rest, most_rows
            self.received_rows += rows
            self._add_waiting(-rows, -size)
        elif not isinstance(element, Watermark):
            self._in_gate.signals -= 1
        self._return_credit(size)
        return element, picks

    def _add_waiting(self, rows: int, size: int) -> None:
        self.waiting_rows += rows
        self.waiting_bytes += size
        self._in_gate.rows += rows
        self._in_gate.bytes += size

    def take(self) -> Element:
        """Remove and return the oldest element, its rows picked; the queue must not be empty."""
        element, picks = self.take_share()
        if isinstance(element, Batch) and picks is not None:
            return element.with_rows(put_together([(element.rows, picks)]))
        return element


def _nobody() -> None:
    return None


def _keep(size: int) -> None:
    return None
