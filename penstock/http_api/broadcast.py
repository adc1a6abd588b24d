"""The events of a job to all who watch it: each reads the kept ones at its own pace, and who falls behind is dropped.

Called in the server's loop. Nothing is queued for a watcher, so one that does not read costs no memory.
"""

import asyncio
from collections.abc import AsyncGenerator

from penstock.engine.core.job_events import JobEvent
from penstock.engine.jobs.metrics import JobMetrics
from penstock.http_api.event_log import EventLog
from penstock.http_api.event_messages import Missed, encode_logged, encode_message

MOST_WATCHERS = 32
"""So many may watch a job."""


class FellBehindError(Exception):
    """A watcher reads so slowly that events which it has not had are not kept any more."""


class Broadcast:
    """The events of one run, the newest metrics, and those who watch."""

    def __init__(self, run: str, log: EventLog | None = None) -> None:
        """``run`` begins the ids of events, and is another for each start of a job."""
        self.run = run
        self.log = log or EventLog()
        self.watchers = 0
        self.dropped = 0
        """How many watchers were too slow."""
        self.is_closed = False
        self._metrics: tuple[int, bytes] = (0, b"")
        self._news = asyncio.Event()

    def add(self, event: JobEvent, at_us: int) -> None:
        """Tell an event to all."""
        self.log.add(event, at_us)
        self._wake()

    def show(self, metrics: JobMetrics, at_us: int) -> None:
        """Tell all what the metrics are now; who has not read those before does not get them any more."""
        if self.watchers:
            self._metrics = self._metrics[0] + 1, encode_message(metrics, at_us)
            self._wake()

    def close(self) -> None:
        """Let all that watch have what there is, and end."""
        self.is_closed = True
        self._wake()

    async def follow(self, begin: int | None, at_us: int) -> AsyncGenerator[bytes, None]:
        """Yield messages from an event on, until the end.

        ``begin`` is the number of the last event that was received, None: it was of another run. It begins at once: no
        event that is added from this call on is passed over.

        Raises:
            FellBehindError: events that were not yielded yet are not kept any more.
        """
        number = 0 if begin is None else begin
        missed = self.log.missed(number)
        if begin is None or missed:
            yield encode_message(Missed(None if begin is None else missed), at_us)
            number += missed
        seen = self._metrics[0]
        while True:
            news, is_closed = self._news, self.is_closed
            if self.log.missed(number):
                raise FellBehindError
            messages = [encode_logged(self.run, logged) for logged in self.log.since(number)]
            number = self.log.last
            if self._metrics[0] != seen:
                seen, metrics = self._metrics
                messages.append(metrics)
            if messages:
                yield b"".join(messages)
            elif is_closed:
                return
            else:
                await news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
