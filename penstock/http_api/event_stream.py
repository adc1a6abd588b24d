"""The operation ``/v1/events``: a watcher's connection, from its first message to its end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from penstock.engine.core.contract import Clock
from penstock.http_api.access import Refusal
from penstock.http_api.broadcast import MOST_WATCHERS, Broadcast, FellBehindError
from penstock.http_api.event_messages import resumed_number
from penstock.http_api.failures import refusing
from penstock.http_api.operations import EVENTS
from penstock.http_api.patience import SlowClientError

RETRY_MS = 1_000
"""After how long a browser comes back."""

TOO_MANY = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE, "too_many", f"{MOST_WATCHERS} watch this job already, and no more may"
)


class EventStream:
    """Answers each request with the events of a job; an application of ASGI."""

    def __init__(self, broadcast: Broadcast, clock: Clock) -> None:
        """``clock`` says when events were missed."""
        self._broadcast, self._clock = broadcast, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send messages until the job ends or the watcher goes or is too slow."""
        broadcast = self._broadcast
        if broadcast.watchers >= MOST_WATCHERS:
            await refusing(scope["path"], TOO_MANY)(scope, receive, send)
            return
        last_id = Headers(scope=scope).get("last-event-id")
        begin = broadcast.log.last if last_id is None else resumed_number(broadcast.run, last_id)
        gone = asyncio.create_task(_gone(receive))
        broadcast.watchers += 1
        try:
            await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": _HEADERS})
            await _send(send, f"retry: {RETRY_MS}\n\n".encode())
            async with aclosing(broadcast.follow(begin, self._clock.wall_us())) as messages:
                while (message := await _next(messages, gone)) is not None:
                    await _send(send, message)
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        except (SlowClientError, FellBehindError):
            broadcast.dropped += 1
            scope["state"]["abort"]()
        finally:
            broadcast.watchers -= 1
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone


_HEADERS = [(b"content-type", f"{EVENTS}; charset=utf-8".encode())]


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _next(messages: AsyncGenerator[bytes, None], gone: "asyncio.Task[None]") -> bytes | None:
    """Return the next message; None: it was the last, or the client has gone."""
    step = asyncio.ensure_future(anext(messages, None))
    await asyncio.wait([step, gone], return_when=asyncio.FIRST_COMPLETED)
    if step.done():
        return await step
    step.cancel()
    with suppress(asyncio.CancelledError):
        await step
    return None


async def _gone(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
