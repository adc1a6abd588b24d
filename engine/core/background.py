"""Work beside the worker loop: what must not stop it goes to a thread, piece after piece, and answers come back.

The simulator hands in another `Background`, whose work happens when its clock says so.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

Work = Callable[[], Any]
Answer = Callable[[Any, BaseException | None], None]
"""Takes the result, or the exception that the work raised. Called by whoever collects."""


class Background(Protocol):
    """Runs pieces of work in order and keeps their answers until they are collected."""

    def submit(self, work: Work, answer: Answer) -> None:
        """Run work soon, and have its answer called by a later `collect`."""

    def collect(self) -> None:
        """Call the answers of all work that is done."""

    def close(self, wait_s: float | None = None) -> None:
        """Wait for all work, ``wait_s`` at most (None: as long as it takes); its answers are dropped."""


class BackgroundThread(Background):
    """A thread that begins with the first piece of work; ``wake`` is called from it whenever a piece is done."""

    def __init__(self, name: str, wake: Callable[[], None]) -> None:
        """Begin no thread yet."""
        self._name = name
        self._wake = wake
        self._work: SimpleQueue[tuple[Work, Answer] | None] = SimpleQueue()
        self._done: deque[tuple[Answer, Any, BaseException | None]] = deque()
        self._thread: threading.Thread | None = None

    def submit(self, work: Work, answer: Answer) -> None:
        """Hand work to the thread."""
        self._work.put((work, answer))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def collect(self) -> None:
        """Call the answers in the calling thread."""
        while self._done:
            answer, result, error = self._done.popleft()
            answer(result, error)

    def close(self, wait_s: float | None = None) -> None:
        """End the thread after what was handed to it; one that hangs is left behind and ends with the process."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(wait_s)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, answer = item
            try:
                self._done.append((answer, work(), None))
            except BaseException as error:
                self._done.append((answer, None, error))
            self._wake()
