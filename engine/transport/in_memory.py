"""Channels inside one process: a bounded queue between two instances."""

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from penstock.engine.core.elements import Batch, Element, Watermark
from penstock.engine.transport.picked_rows import Picks, put_together


class Channel:
    """A first-in-first-out queue from one producer instance to one consumer instance.

    Bounded in bytes: there is room while fewer than ``capacity_bytes`` wait, so one batch may exceed the bound.
    Control elements always have room. ``on_put`` and ``on_take`` tell the loop whom to look at again.
    """

    __slots__ = (
        "_capacity_bytes",
        "_queue",
        "name",
        "on_put",
        "on_take",
        "received_rows",
        "sent_rows",
        "waiting_bytes",
        "waiting_rows",
        "waiting_signals",
    )

    def __init__(self, name: str, capacity_bytes: int) -> None:
        """Make an empty channel."""
        self.name = name
        self._capacity_bytes = capacity_bytes
        self._queue: deque[tuple[Element, Picks | None, int]] = deque()
        self.waiting_bytes = 0
        self.waiting_rows = 0
        self.waiting_signals = 0
        """Waiting control elements other than watermarks."""
        self.sent_rows = 0
        self.received_rows = 0
        self.on_put: Callable[[], None] = _nobody
        self.on_take: Callable[[], None] = _nobody

    def __len__(self) -> int:
        return len(self._queue)

    def shares(self) -> Iterator[tuple[Element, Picks | None]]:
        """Look at the waiting elements with the rows that are meant, oldest first, without taking them."""
        return ((element, picks) for element, picks, _ in self._queue)

    def has_room(self) -> bool:
        """Return whether a batch may be put."""
        return self.waiting_bytes < self._capacity_bytes

    def put(self, element: Element, picks: Picks | None = None) -> None:
        """Append an element; of a batch only the rows numbered in ``picks``, if given."""
        size = 0
        if isinstance(element, Batch):
            rows = _rows(element, picks)
            size = element.rows.nbytes * rows // max(1, element.rows.num_rows)
            self.sent_rows += rows
            self.waiting_rows += rows
        elif not isinstance(element, Watermark):
            self.waiting_signals += 1
        self._queue.append((element, picks, size))
        self.waiting_bytes += size
        self.on_put()

    def take_share(self, most_rows: int | None = None) -> tuple[Element, Picks | None]:
        """Remove the oldest element and return it with the rows that are meant; the channel must not be empty.

        Of a batch with more than ``most_rows`` rows (at least 1) only the first ones; the others go on waiting.
        """
        element, picks, size = self._queue.popleft()
        if isinstance(element, Batch):
            rows = _rows(element, picks)
            if most_rows is not None and rows > most_rows:
                if picks is None:
                    picks = np.arange(rows, dtype=np.int32)
                rest = size * (rows - most_rows) // rows
                self._queue.appendleft((element, picks[most_rows:], rest))
                picks, size, rows = picks[:most_rows], size - rest, most_rows
            self.received_rows += rows
            self.waiting_rows -= rows
        elif not isinstance(element, Watermark):
            self.waiting_signals -= 1
        self.waiting_bytes -= size
        self.on_take()
        return element, picks

    def take(self) -> Element:
        """Remove and return the oldest element, its rows picked; the channel must not be empty."""
        element, picks = self.take_share()
        if isinstance(element, Batch) and picks is not None:
            return element.with_rows(put_together([(element.rows, picks)]))
        return element


def _rows(element: Element, picks: Picks | None) -> int:
    if not isinstance(element, Batch):
        return 0
    return element.rows.num_rows if picks is None else int(picks.size)


def _nobody() -> None:
    return None
