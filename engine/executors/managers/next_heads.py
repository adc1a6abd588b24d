"""Heads that offer to lead a task manager which may have lost its own. Imports nothing but Python's own modules."""

import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NextHead:
    """The head of a later run, by its control link; ``over`` is set once that link is, or nothing follows that head."""

    run: int
    end: socket.socket
    over: threading.Event = field(default_factory=threading.Event)


class NextHeads:
    """Heads that offer to lead a task manager whose own may be lost. Any thread may offer one."""

    def __init__(self) -> None:
        """Begin without one."""
        self._offered: deque[NextHead] = deque()
        self._act: Callable[[], None] = lambda: None

    def when_offered(self, act: Callable[[], None]) -> None:
        """Call this whenever one is there; it only sets or puts."""
        self._act = act
        act()

    def offer(self, head: NextHead) -> None:
        """Let the task manager decide whether it follows a head."""
        self._offered.append(head)
        self._act()

    def take(self) -> NextHead | None:
        """Return one that was offered, None: there is none."""
        return self._offered.popleft() if self._offered else None
