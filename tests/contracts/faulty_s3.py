"""An S3 server (moto's) on a port of its own, and a proxy in front of it that answers badly when it is told to."""

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from moto.server import ThreadedMotoServer

BUCKET = "bucket"
HOST = "127.0.0.1"

PASSING = ("error", "busy", "cut request", "cut reply", "lost reply", "slow")
"""What may go wrong with one request and is worth another: a 500, a 503, half of a request, half of its reply, none of
it, or one that takes half a second."""

SILENT = "silent"
"""No reply until the client gives up."""
FORBIDDEN = "forbidden"

_ERRORS = {
    "error": (500, "InternalError"),
    "busy": (503, "SlowDown"),
    FORBIDDEN: (403, "AccessDenied"),
}
_SILENCE_S = 30.0


@dataclass
class Faults:
    """``choose`` says of each request (method, path) what is to go wrong with it; None: nothing."""

    choose: Callable[[str, str], str | None] = lambda method, path: None
    requests: int = 0
    struck: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, method: str, path: str) -> str | None:
        with self.lock:
            self.requests += 1
            fault = self.choose(method, path)
            self.struck += fault is not None
        return fault

    def calm(self) -> None:
        """Let nothing go wrong from now on, and count anew."""
        with self.lock:
            self.choose = lambda method, path: None
            self.requests = self.struck = 0


@dataclass
class Store:
    """Where the proxy listens, and what it does wrong."""

    port: int
    faults: Faults

    def url(self, folder: str) -> str:
        query = f"endpoint_override={HOST}:{self.port}&scheme=http&region=us-east-1"
        return f"s3://key:secret@{BUCKET}/{folder}?{query}"


@contextmanager
def s3_store() -> Iterator[Store]:
    """Run the server with one empty bucket, and the proxy."""
    server = ThreadedMotoServer(ip_address=HOST, port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        made = http.client.HTTPConnection(HOST, port)
        made.request("PUT", f"/{BUCKET}", headers={"Authorization": _SIGNED})
        assert made.getresponse().status == 200
        made.close()
        with _proxy(port) as store:
            yield store
    finally:
        server.stop()


_SIGNED = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


@contextmanager
def _proxy(port: int) -> Iterator[Store]:
    faults, ended = Faults(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A reply that waits for an acknowledgement takes 40 ms.
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            fault = faults.next(self.command, self.path)
            if fault == "cut request":
                if "Transfer-Encoding" in self.headers:
                    self.rfile.readline()
                else:
                    self.rfile.read(int(self.headers.get("Content-Length", 0)) // 2)
                self._hang_up()
                return
            body = self._body()
            if fault in _ERRORS:
                self._refuse(*_ERRORS[fault])
                return
            if fault == SILENT:
                ended.wait(_SILENCE_S)
                self._hang_up()
                return
            if fault == "slow":
                time.sleep(0.5)
            status, headers, content = self._ask(body)
            if fault == "lost reply":
                self._hang_up()
                return
            self._reply(status, headers, content, cut=fault == "cut reply")

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            chunks: list[bytes] = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(chunks)

        def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            behind = http.client.HTTPConnection(HOST, port)
            hops = ("expect", "connection", "transfer-encoding")
            kept = {name: value for name, value in self.headers.items() if name.lower() not in hops}
            behind.request(self.command, self.path, body, kept)
            reply = behind.getresponse()
            content = reply.read()
            behind.close()
            return reply.status, reply.getheaders(), content

        def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes, *, cut: bool) -> None:
            self.send_response_only(status)
            names = {name.lower() for name, _ in headers}
            for name, value in headers:
                if name.lower() not in ("connection", "transfer-encoding"):
                    self.send_header(name, value)
            if "content-length" not in names:
                self.send_header("Content-Length", str(len(content)))
            if cut and not content:
                self._hang_up()
                return
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[: len(content) // 2] if cut else content)
            if cut:
                self._hang_up()

        def _refuse(self, status: int, code: str) -> None:
            text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'.encode()
            self._reply(status, [("Content-Type", "application/xml")], text, cut=False)

        def _hang_up(self) -> None:
            self.close_connection = True
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            # A client that has given up is no news.
            pass

    listening = Server((HOST, 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,), name="faulty-s3", daemon=True)
    thread.start()
    try:
        yield Store(listening.server_address[1], faults)
    finally:
        ended.set()
        listening.shutdown()
        listening.server_close()
        thread.join()
