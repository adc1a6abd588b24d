"""An HTTP endpoint with a job's metrics, on this machine only: GET /metrics and nothing else (reliability.md 6.3).

Opened by `endpoints`; what it answers is written by `prometheus`.
"""

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST

from penstock.endpoints import Endpoint
from penstock.engine.metrics import JobMetrics
from penstock.model.errors import OptionError
from penstock.prometheus import exposition
from penstock.run_options import LOOPBACK

PATH = "/metrics"
PATIENCE_S = 10.0
"""How long a client may be silent."""

Read = Callable[[], JobMetrics]


class MetricsEndpoint(Endpoint):
    """Answers from threads of its own, from the start; until `show` it says that nothing is there yet."""

    def __init__(self, host: str, port: int) -> None:
        """Listen on a loopback address; port 0 takes any that is free.

        Raises:
            OptionError: the port cannot be had.
        """
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            reason = error.strerror or error
            raise OptionError(
                f"metrics cannot be served on port {port} of {host}: {reason}; choose another metrics_port, or 0 for "
                "any that is free."
            ) from None
        self.url = f"http://{host}:{self._server.server_address[1]}{PATH}"
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

    def server_bind(self) -> None:
        """Take the address as it is."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client go that broke the connection."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "penstock"
    sys_version = ""
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        """Answer with the metrics."""
        if not self._may_ask():
            self._answer(HTTPStatus.FORBIDDEN, b"ask this machine by its own name, and from no page\n")
        elif self.path != PATH:
            self._answer(HTTPStatus.NOT_FOUND, b"there is only /metrics\n")
        elif self.server.read is None:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"the job has not begun\n")
        else:
            try:
                text = exposition(self.server.read)
            except Exception as error:
                told = f"the metrics cannot be read: {type(error).__name__}: {error}\n"
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, told.encode(errors="replace"))
                return
            self._answer(HTTPStatus.OK, text, CONTENT_TYPE_LATEST)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Answer any other method; the base class looks for ``do_<METHOD>``."""
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: standard error is the job's."""

    def _refuse(self) -> None:
        self._answer(
            HTTPStatus.METHOD_NOT_ALLOWED if self._may_ask() else HTTPStatus.FORBIDDEN, b"only GET is answered\n"
        )

    def _may_ask(self) -> bool:
        """Refuse what a page of a foreign site could send after it has its name resolved to this machine."""
        hosts = self.headers.get_all("Host") or []
        port = self.server.server_address[1]
        own = {f"{name}:{port}" for name in LOOPBACK}
        return len(hosts) == 1 and hosts[0].lower() in own and self.headers.get("Origin") is None

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = True
