"""A link that a thread receives from, as the alternative to a loop that does so between two steps."""

import os
import select
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from penstock.engine.core.elements import Element
from penstock.engine.transport.batch_body import Body
from penstock.engine.transport.link import Arrival, Link
from penstock.engine.transport.picked_rows import Picks
from penstock.model.errors import WorkerLostError

_LOOK_S = 0.2


class ThreadedLink:
    """A `Link` around another, which a thread and the loop take turns at; what came waits for the loop."""

    def __init__(self, link: Link) -> None:
        """Start the thread."""
        self._link = link
        self._lock = threading.Lock()
        self._inbox: deque[Arrival] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closed = False
        self._lost: WorkerLostError | None = None
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Return what the thread makes readable."""
        return self._wake

    def send(self, channel: int, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        """Send, with the thread held off."""
        with self._lock:
            self._link.send(channel, element, picks, rows, size)

    def send_state(self, body: Body, size: int, *, more: bool) -> None:
        """Send state, with the thread held off."""
        with self._lock:
            self._link.send_state(body, size, more=more)

    def carries_state(self) -> bool:
        """Return whether the link does."""
        with self._lock:
            return self._link.carries_state()

    def passed(self) -> int:
        """Return what the link does."""
        return self._link.passed()

    def grant(self, channel: int, size: int) -> None:
        """Give credit back."""
        with self._lock:
            self._link.grant(channel, size)

    def flush(self) -> None:
        """Let what was sent leave."""
        with self._lock:
            self._link.flush()

    def has_unsent(self) -> bool:
        """Return whether something waits."""
        with self._lock:
            return self._link.has_unsent()

    def is_blocked(self) -> bool:
        """Return whether something waits for the socket."""
        with self._lock:
            return self._link.is_blocked()

    def receive(self) -> Sequence[Arrival]:
        """Return what the thread has received."""
        if not self._inbox:
            if self._lost is not None:
                raise self._lost
            return ()
        with suppress(BlockingIOError):
            # What came may be there before the word of it.
            os.eventfd_read(self._wake)
        arrivals = []
        while self._inbox:
            arrivals.append(self._inbox.popleft())
        return arrivals

    def end(self) -> None:
        """Tell the other side."""
        with self._lock:
            self._link.end()

    def has_ended(self) -> bool:
        """Return whether the other side has said so, and all is taken."""
        return not self._inbox and self._link.has_ended()

    def close(self) -> None:
        """End the thread, and close the link."""
        self._closed = True
        self._thread.join()
        self._link.close()
        os.close(self._wake)

    def _receive(self) -> None:
        # The other side may have ended and still read.
        while not self._closed and (self.has_unsent() or not self._link.has_ended()):
            readable, _, _ = select.select([self._link], [], [], _LOOK_S)
            if not readable:
                continue
            try:
                with self._lock:
                    arrivals = self._link.receive()
            except WorkerLostError as error:
                self._lost, arrivals = error, ()
            self._inbox.extend(arrivals)
            os.eventfd_write(self._wake, 1)
            if self._lost is not None:
                return
