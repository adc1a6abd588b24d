"""Channels inside one task manager: a bounded queue between two instances."""

from collections import deque
from collections.abc import Callable, Iterator

from penstock.engine.elements import Batch, Element


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
    )

    def __init__(self, name: str, capacity_bytes: int) -> None:
        """Make an empty channel."""
        self.name = name
        self._capacity_bytes = capacity_bytes
        self._queue: deque[tuple[Element, int]] = deque()
        self.waiting_bytes = 0
        self.sent_rows = 0
        self.received_rows = 0
        self.on_put: Callable[[], None] = _nobody
        self.on_take: Callable[[], None] = _nobody

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Element]:
        """Look at the waiting elements, oldest first, without taking them."""
        return (element for element, _ in self._queue)

    def has_room(self) -> bool:
        """Return whether a batch may be put."""
        return self.waiting_bytes < self._capacity_bytes

    def put(self, element: Element) -> None:
        """Append an element."""
        size = 0
        if isinstance(element, Batch):
            size = element.rows.nbytes
            self.sent_rows += element.rows.num_rows
        self._queue.append((element, size))
        self.waiting_bytes += size
        self.on_put()

    def take(self) -> Element:
        """Remove and return the oldest element; the channel must not be empty."""
        element, size = self._queue.popleft()
        self.waiting_bytes -= size
        if isinstance(element, Batch):
            self.received_rows += element.rows.num_rows
        self.on_take()
        return element


def _nobody() -> None:
    return None
