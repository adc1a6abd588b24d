"""The server of a job's HTTP API: a thread with a loop of its own, around the guard and the operations.

The job goes on whatever happens here: it is read through `Readings`, and what it tells goes into a queue.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock
from penstock.engine.core.job_events import JobEvent, Stuck, WellAgain
from penstock.http_api.access import Access, Tokens
from penstock.http_api.broadcast import Broadcast
from penstock.http_api.endpoints import Endpoint
from penstock.http_api.event_stream import EventStream
from penstock.http_api.guard import Guard
from penstock.http_api.handlers import Handlers
from penstock.http_api.patience import PATIENCE_S
from penstock.http_api.served_job import ServedJob
from penstock.metrics.health import health
from penstock.model.errors import OptionError

PATH = "/metrics"

MOST_CONNECTIONS = 128
"""So many connections are answered at a time."""

MOST_HEADER_BYTES = 16_384
TICK_S = 1.0
"""How often whoever watches is told the metrics."""

LAST_WORDS_S = 0.5
"""How long the end waits for clients to take their answers, and for those who watch to read the last events."""

THE_LOOP = "caller"
"""The name of the loop in the process of the server, beside those of task managers."""


class ApiEndpoint(Endpoint):
    """Answers from a thread of its own, from the start; until `show` it says that nothing is there yet."""

    def __init__(self, host: str, port: int, tokens: Tokens | None = None, clock: Clock | None = None) -> None:
        """Listen; port 0 takes any that is free.

        Raises:
            OptionError: the port cannot be had.
        """
        self._socket = _listening(host, port)
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}{PATH}"
        self.before_close: Callable[[], None] | None = None
        """Called at the end, while the port is still the job's."""
        self._loop = asyncio.new_event_loop()
        self._service = _Service(Access(self.port, tokens or Tokens()), clock or SystemClock())
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-http", daemon=True)
        self._thread.start()
        self._up.wait()

    def show(self, job: ServedJob) -> None:
        """Serve a job."""
        self._call(self._service.handlers.show, job)

    def tell(self, event: JobEvent) -> None:
        """Pass an event on to whoever watches."""
        self._service.inbox.put((event, self._service.clock.wall_us()))
        self._call(self._service.take)

    def close(self) -> None:
        """Stop listening, once those who watch had a moment to read the last events."""
        if self.before_close is not None:
            self.before_close()
        self._call(self._service.end)
        self._thread.join()

    def _call(self, function: Any, *arguments: Any) -> None:
        # Of a server that has ended nothing is wanted any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._service.serve(self._socket, self._up))
        finally:
            self._up.set()
            self._socket.close()
            self._loop.close()


class _Service:
    """All that runs in the server's loop."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self.clock = clock
        self.inbox: SimpleQueue[tuple[JobEvent, int]] = SimpleQueue()
        self._threads = ThreadPoolExecutor(1, "penstock-http-work")
        self._broadcast = Broadcast(f"{clock.wall_us():x}")
        self.handlers = Handlers(self._broadcast, self._threads, takes_actions=access.tokens.act is not None)
        routes = [Route(path, handler, methods=[method]) for (method, path), handler in self.handlers.by_path().items()]
        routes.append(Route("/v1/events", EventStream(self._broadcast, clock)))
        app = Guard(Starlette(routes=routes), access)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                loop="none",
                http=PatientProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                headers=[("Server", "penstock")],
                limit_concurrency=MOST_CONNECTIONS,
                h11_max_incomplete_event_size=MOST_HEADER_BYTES,
                timeout_graceful_shutdown=1,
            )
        )

    async def serve(self, listening: socket.socket, up: threading.Event) -> None:
        """Answer until `end`."""
        ticks = asyncio.create_task(self._tick())
        asyncio.get_running_loop().call_soon(up.set)
        try:
            await self._server.serve([listening])
        finally:
            ticks.cancel()
            self.handlers.close()
            self._threads.shutdown(wait=False)

    def take(self) -> None:
        """Pass on what the job has told."""
        with suppress(Empty):
            while True:
                self._broadcast.add(*self.inbox.get_nowait())

    def end(self) -> None:
        """Let those who watch read the last events, then stop listening."""
        self.take()
        self._broadcast.close()
        self._last_words = asyncio.create_task(self._end())

    async def _end(self) -> None:
        loop, state = asyncio.get_running_loop(), self._server.server_state
        until_s = loop.time() + LAST_WORDS_S
        while (state.tasks or state.connections) and loop.time() < until_s:
            await asyncio.sleep(0.01)
        for connection in list(state.connections):
            if isinstance(connection, PatientProtocol):
                connection.transport.abort()
        # Nobody is left to be waited for.
        self._server.should_exit = self._server.force_exit = True

    async def _tick(self) -> None:
        well = True
        while True:
            await asyncio.sleep(TICK_S)
            try:
                metrics = await self.handlers.metrics()
            except Exception:
                # Whoever asks for the metrics is told why they cannot be read.
                continue
            if metrics is None:
                continue
            verdict = health(metrics)
            if verdict.well is not well:
                well = verdict.well
                news = WellAgain(THE_LOOP, "the loop goes on") if well else Stuck(THE_LOOP, verdict.text)
                self._broadcast.add(news, self.clock.wall_us())
            self._broadcast.show(metrics, self.clock.wall_us())


class PatientProtocol(H11Protocol):
    """HTTP for one request a connection, which must have come, and whose answer must have gone, within a time limit."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Say nothing on standard error, which is the job's."""
        super().__init__(*arguments, **options)
        self.logger = _SILENT
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the request."""
        self.app_state = {**self.app_state, "abort": transport.abort}
        super().connection_made(transport)
        self._limit = self.loop.call_later(PATIENCE_S, self._look)

    def on_response_complete(self) -> None:
        """Begin to wait until the client has taken the answer."""
        super().on_response_complete()
        self._stop_waiting()
        self._limit = self.loop.call_later(PATIENCE_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _look(self) -> None:
        # A request that has come whole is being answered; parts of the answer have a limit of their own.
        if self.cycle is None or self.cycle.more_body:
            self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()


_SILENT = logging.Logger("penstock.http")
_SILENT.addHandler(logging.NullHandler())


def _listening(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(MOST_CONNECTIONS)
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise OptionError(
            f"metrics cannot be served on port {port} of {host}: {reason}; choose another metrics_port, or 0 for "
            "any that is free."
        ) from None
    return listening
