"""The guard before all operations: who may not ask, or asks for what there is not, goes no further."""

from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.http_api.access import Access, Refusal, RequestHeaders
from penstock.http_api.access import Scope as Right
from penstock.http_api.failures import refusing
from penstock.http_api.operations import OPERATIONS, methods_at
from penstock.http_api.patience import SlowClientError, patient

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    # One request a connection: its time limit is that of the connection.
    (b"connection", b"close"),
]


class Guard:
    """Judges every request, whatever its method and path; an application of ASGI around another."""

    def __init__(self, inner: ASGIApp, access: Access) -> None:
        """Let what ``access`` allows through to ``inner``."""
        self._inner, self._access = inner, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request or let it through; cut the connection of who does not take the answer."""
        send = patient(send, _HEADERS)
        try:
            refused = self._refusal(scope)
            await (self._inner if refused is None else refused)(scope, receive, send)
        except SlowClientError:
            scope["state"]["abort"]()

    def _refusal(self, scope: Scope) -> Response | None:
        path, method = scope["path"], scope["method"]
        there = methods_at(path)
        operation = there.get(method)
        refusal = self._access.refusal(
            _sender(Headers(scope=scope)), Right.READ if operation is None else operation.scope
        )
        if refusal is not None:
            return refusing(path, refusal)
        if operation is None and (there or method != "GET"):
            allowed = ", ".join(there or ["GET"])
            return refusing(path, _wrong_method(allowed), {"Allow": allowed})
        if operation is None or scope["query_string"]:
            return refusing(path, _UNKNOWN)
        return None


def _sender(headers: Headers) -> RequestHeaders:
    return RequestHeaders(headers.getlist("host"), headers.get("origin"), headers.get("authorization"))


_UNKNOWN = Refusal(
    HTTPStatus.NOT_FOUND,
    "unknown_path",
    f"there is only {', '.join(dict.fromkeys(operation.path for operation in OPERATIONS))}, without a query",
)


def _wrong_method(allowed: str) -> Refusal:
    return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "wrong_method", f"only {allowed} is answered")
