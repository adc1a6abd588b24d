"""Server-sent messages as they are received."""

import http.client
from collections.abc import Callable, Iterator

import msgspec

from penstock.http_api.event_messages import EventMessage, decode_message


def read_messages(
    response: http.client.HTTPResponse, most_bytes: int, unreachable: Callable[[BaseException], Exception]
) -> Iterator[EventMessage]:
    """Yield the messages of an answer until its end; kinds that are not known here are passed over.

    Raises:
        Exception: what ``unreachable`` makes of the error that breaks the connection.
    """
    fields: dict[bytes, bytes] = {}
    try:
        while line := response.readline(most_bytes):
            name, colon, value = line.rstrip(b"\r\n").partition(b":")
            if name and colon:
                fields[name] = value.removeprefix(b" ")
            elif not name and not colon:
                message = _message(fields)
                fields = {}
                if message is not None:
                    yield message
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        raise unreachable(error) from None


def _message(fields: dict[bytes, bytes]) -> EventMessage | None:
    if b"data" not in fields:
        return None
    message_id = fields.get(b"id")
    kind = fields.get(b"event", b"message").decode()
    return decode_message(kind, None if message_id is None else message_id.decode(), fields[b"data"])
