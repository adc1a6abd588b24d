"""Coroutine calls on an I/O thread: the one place where asyncio runs.

`map_async` hands calls in and takes answers out, without ever waiting; the simulator puts other `AsyncCalls` in.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.model.source_location import user_traceback

STOP_S = 1.0
"""How long a stop waits for coroutines that are being cancelled; those that go on are left behind."""

Asked = tuple[int, Sequence[Any]]
"""A call's ticket, never used twice, and the arguments of the coroutine function."""

Answer = tuple[int, Any, str | None]
"""A call's ticket and its result, or why there is none: a traceback or a sentence."""


@dataclass(slots=True)
class CallCounts:
    """Attempts of calls that are over: how many, how long they took together, and how many of them failed."""

    calls: int = 0
    waited_ns: int = 0
    errors: int = 0

    def add(self, waited_ns: int, *, failed: bool) -> None:
        """Count one that is over."""
        self.calls += 1
        self.waited_ns += waited_ns
        self.errors += failed


_log = logging.getLogger("penstock.async")


class AsyncCalls(Protocol):
    """Calls of one coroutine function that are under way. All methods are the worker's and return at once."""

    def submit(self, calls: Sequence[Asked]) -> None:
        """Begin these calls."""

    def cancel(self, tickets: Sequence[int]) -> None:
        """Cancel calls that no one waits for any more; they are not answered, those excepted that were already."""

    def ready(self) -> bool:
        """Return whether there are answers to take."""

    def completed(self) -> list[Answer]:
        """Take the answers that are there, in the order in which they came."""

    def stop(self) -> None:
        """Cancel what is under way and end, within `STOP_S`; nothing is called after that."""


MakeCalls = Callable[[Callable[..., Any], Callable[[], None]], AsyncCalls]
"""Makes the calls of a coroutine function; the other function, safe to call in any thread, says an answer is there."""


class IoThread:
    """Runs the coroutines in one event loop on a daemon thread, from the first `submit` on. Implements `AsyncCalls`.

    Each call is a task of its own; what else a coroutine starts ends with the loop.
    """

    def __init__(self, function: Callable[..., Any], wake: Callable[[], None]) -> None:
        """Call ``function``; ``wake`` is called on the thread when there are answers and were none."""
        self._function = function
        self._wake = wake
        self._answers: deque[Answer] = deque()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._fatal: BaseException | None = None
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end = asyncio.Event()

    def submit(self, calls: Sequence[Asked]) -> None:
        """Begin these calls."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="penstock-async", daemon=True)
            self._thread.start()
        self._loop.call_soon_threadsafe(self._begin, self._loop, calls)

    def cancel(self, tickets: Sequence[int]) -> None:
        """Cancel calls; a coroutine that pays no heed to that goes on unobserved."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel, tickets)

    def ready(self) -> bool:
        """Return whether there are answers to take."""
        return bool(self._answers)

    def completed(self) -> list[Answer]:
        """Take the answers that are there.

        Raises:
            BaseException: a coroutine raised what ends programs (SystemExit, KeyboardInterrupt).
        """
        # Appending and taking are atomic by themselves.
        taken = [self._answers.popleft() for _ in range(len(self._answers))]
        if self._fatal is not None:
            raise self._fatal
        return taken

    def stop(self) -> None:
        """Cancel what is under way, end the loop and wait for the thread, but not for long."""
        if self._loop is None or self._thread is None or self._stopping:
            return
        self._stopping = True
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            _log.warning("A coroutine of map_async goes on although it was cancelled; its thread is left behind.")

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        # Leaving the runner cancels all tasks and waits for them.
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._until_the_end())

    async def _until_the_end(self) -> None:
        await self._end.wait()

    def _begin(self, loop: asyncio.AbstractEventLoop, calls: Iterable[Asked]) -> None:
        if not self._stopping:
            for ticket, arguments in calls:
                self._tasks[ticket] = loop.create_task(self._call(ticket, arguments))

    def _cancel(self, tickets: Iterable[int]) -> None:
        for ticket in tickets:
            task = self._tasks.pop(ticket, None)
            if task is not None:
                task.cancel()

    async def _call(self, ticket: int, arguments: Sequence[Any]) -> None:
        result = error = None
        try:
            result = await self._function(*arguments)
        except asyncio.CancelledError as failure:
            if self._stopping or ticket not in self._tasks:
                raise
            error = user_traceback(failure)
        except Exception as failure:
            error = user_traceback(failure)
        except BaseException as raised:
            self._fatal = raised
        if self._tasks.pop(ticket, None) is not None:
            self._answers.append((ticket, result, error))
            # Whoever empties the answers looks again before waiting, so that the first of them wakes enough.
            if len(self._answers) == 1:
                self._wake()
