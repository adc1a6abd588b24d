"""An HTTP endpoint with a job's metrics: GET ``/metrics``, ``/health``, ``/ready`` and nothing else.

Opened by `endpoints`; what it answers is written by `prometheus` and judged by `health`, whom by `metrics.access`.
"""

import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST

from penstock.engine.jobs.metrics import JobMetrics
from penstock.metrics.access import Access, MetricsRequest
from penstock.metrics.endpoints import Endpoint
from penstock.metrics.health import HealthVerdict, health, readiness
from penstock.metrics.prometheus import exposition
from penstock.model.errors import OptionError

PATH = "/metrics"
_WORDS = {"/health": health, "/ready": readiness}
PATIENCE_S = 10.0
"""Time limit for a silent client."""

Read = Callable[[], JobMetrics]


class MetricsEndpoint(Endpoint):
    """Answers from threads of its own, from the start; until `show` it says that nothing is there yet."""

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        """Listen; port 0 takes any that is free. With a token only who sends it gets metrics.

        Raises:
            OptionError: the port cannot be had.
        """
        try:
            server = _Server6 if ":" in host else _Server
            self._server = server((host, port), _Handler)
        except OSError as error:
            reason = error.strerror or error
            raise OptionError(
                f"metrics cannot be served on port {port} of {host}: {reason}; choose another metrics_port, or 0 for "
                "any that is free."
            ) from None
        bound_port = int(self._server.server_address[1])
        self._server.access = Access(bound_port, token)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{bound_port}{PATH}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="penstock-metrics", daemon=True
        )
        self._thread.start()

    def show(self, read: Read) -> None:
        """Serve the metrics that ``read`` returns."""
        self._server.read = read

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    """Serves without asking a name server what this machine is called."""

    daemon_threads = True
    block_on_close = False
    read: Read | None = None
    access: Access

    def server_bind(self) -> None:
        """Take the address as it is."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client go that broke the connection."""


class _Server6(_Server):
    """Serves at an address of IPv6."""

    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "penstock"
    sys_version = ""
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        """Answer with the metrics, or with a word on the job's health."""
        judge = _WORDS.get(self.path)
        asking = self._asking()
        refused = self.server.access.refusal(asking) if judge is None else self.server.access.health_refusal(asking)
        if refused is not None:
            self._refuse_for(refused)
        elif judge is None and self.path != PATH:
            self._answer(HTTPStatus.NOT_FOUND, f"there is only {PATH}, {', '.join(_WORDS)}\n".encode())
        else:
            self._answer_from(self.server.read, judge)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Answer any other method; the base class looks for ``do_<METHOD>``."""
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: standard error is the job's."""

    def _answer_from(self, read: Read | None, judge: Callable[[JobMetrics | None], HealthVerdict] | None) -> None:
        try:
            if judge is not None:
                verdict = judge(None if read is None else read())
                status = HTTPStatus.OK if verdict.well else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, f"{verdict.text}\n".encode())
            elif read is None:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"the job has not begun\n")
            else:
                self._answer(HTTPStatus.OK, exposition(read), CONTENT_TYPE_LATEST)
        except OSError:
            raise
        except Exception as error:
            # Whoever asks for a word on health may be a stranger, who is not told what is in an error.
            why = "" if judge is not None else f": {type(error).__name__}: {error}"
            text = f"the metrics cannot be read{why}\n"
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, text.encode(errors="replace"))

    def _refuse(self) -> None:
        refused = self.server.access.refusal(self._asking())
        if refused is not None:
            self._refuse_for(refused)
        else:
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is answered\n")

    def _refuse_for(self, status: HTTPStatus) -> None:
        if status is HTTPStatus.UNAUTHORIZED:
            self._answer(status, b"send the token: Authorization: Bearer TOKEN\n")
        else:
            self._answer(status, b"ask this machine by its own name, and from no page\n")

    def _asking(self) -> MetricsRequest:
        headers = self.headers
        return MetricsRequest(headers.get_all("Host") or [], headers.get("Origin"), headers.get("Authorization"))

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Bearer realm="penstock"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = True
