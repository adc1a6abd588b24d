"""Patience with clients: how long one may take to ask and to take an answer, before its connection is cut."""

import asyncio

from starlette.types import Message, Send

PATIENCE_S = 10.0
"""Time limit for a client to send its request, and to take each part of the answer."""


class SlowClientError(Exception):
    """A client does not take its answer."""


def patient(send: Send, headers: list[tuple[bytes, bytes]]) -> Send:
    """Return what sends with a time limit, and adds ``headers`` to every answer.

    It raises `SlowClientError` when the client does not take what is sent.
    """

    async def send_patiently(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        try:
            async with asyncio.timeout(PATIENCE_S):
                await send(message)
        except TimeoutError:
            raise SlowClientError from None

    return send_patiently
