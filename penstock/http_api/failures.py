"""Requests that are not done: which status, code and sentence answers them, as text or as JSON."""

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from penstock.http_api.access import Refusal
from penstock.http_api.answers import ErrorAnswer
from penstock.http_api.operations import JSON, JSON_PREFIX

NOT_BEGUN = Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "not_begun", "the job has not begun")
TOO_LONG = Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_long", "the body of the request is too long")


class RefusedError(Exception):
    """A request is answered by a refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


def refusing(path: str, refusal: Refusal, headers: dict[str, str] | None = None) -> Response:
    """Return the answer to a request at a path that is not done."""
    headers = dict(headers or {})
    if refusal.status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="penstock"'
    if path.startswith(JSON_PREFIX):
        body = msgspec.json.encode(ErrorAnswer(refusal.code, refusal.text))
        return Response(body, refusal.status, headers, JSON)
    return Response(f"{refusal.text}\n".encode(errors="replace"), refusal.status, headers, "text/plain")
