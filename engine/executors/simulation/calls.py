"""Coroutine calls of a simulated run or of a test: made at once on the loop's own thread, answered at its next turn."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from penstock.engine.core.async_calls import Answer, Asked
from penstock.model.source_location import user_traceback


class CallsAtOnce:
    """Runs every coroutine to its end when it is asked for. Implements `AsyncCalls`."""

    def __init__(self, function: Callable[..., Any], wake: Callable[[], None]) -> None:
        """Call ``function``; ``wake`` says that there are answers."""
        self._function = function
        self._wake = wake
        self._answers: list[Answer] = []

    def submit(self, calls: Sequence[Asked]) -> None:
        """Make the calls."""
        for ticket, arguments in calls:
            try:
                self._answers.append((ticket, asyncio.run(self._function(*arguments)), None))
            except Exception as raised:
                self._answers.append((ticket, None, user_traceback(raised)))
        self._wake()

    def cancel(self, tickets: Sequence[int]) -> None:
        """Forget answers that nobody waits for."""
        cancelled = set(tickets)
        self._answers = [answer for answer in self._answers if answer[0] not in cancelled]

    def ready(self) -> bool:
        """Return whether there are answers."""
        return bool(self._answers)

    def completed(self) -> list[Answer]:
        """Take the answers."""
        answers, self._answers = self._answers, []
        return answers

    def stop(self) -> None:
        """End."""
        self._answers = []
