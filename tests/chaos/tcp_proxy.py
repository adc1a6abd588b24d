"""A TCP proxy between clients and a broker that delays, throttles, holds and cuts connections; it changes no byte.

It takes its port when it is made, so that a broker can be started that advertises it (`proxied_listener`). Called by
the tests and by `kafka_links`.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.dev.kafka_broker import Listener, LocalBroker
from tests.chaos.link_shape import Line, Shape

HOST = "127.0.0.1"
NAME = "PROXIED"
PATIENCE_S = 10.0
END_TXN, PRODUCE, FETCH, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT = 26, 0, 1, 22, 28
"""Kinds of requests, by their number in Kafka's protocol."""

BOTH = ("requests", "answers")
_T = TypeVar("_T")
_SLICE = 16_384
_ON_THE_WAY = 8
"""So many slices of a connection may be on their way, each way, before the sender has to wait."""

_LARGEST_FRAME = 128 << 20


@dataclass
class Held:
    """A request or an answer that is caught when it comes, and kept for ``seconds`` or until `release`."""

    api_key: int
    seconds: float
    what: str
    caught: threading.Event = field(default_factory=threading.Event)
    passed: threading.Event = field(default_factory=threading.Event)
    correlation: tuple[int, bytes] | None = None
    freed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class _Direction:
    open: asyncio.Event
    line: Line
    bytes: int = 0


class TcpProxy:
    """Runs on a thread of its own until `close`; every method may be called from any thread.

    ``frames``: requests are told apart, which needs a listener without TLS; `requests` and `hold_next` need it.
    """

    def __init__(self, target: str = "", *, frames: bool = True, seed: int = 0) -> None:
        """Listen at a free port; ``target``, ``host:port``, can be set later, before the first connection."""
        self.target = target
        self.requests: Counter[int] = Counter()
        """How many requests of each kind have come, if ``frames``."""
        self._frames = frames
        self._cut = False
        self._held: list[Held] = []
        self._links: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._thread.start()
        self._directions = self._do(self._make_directions(seed))
        self._server: asyncio.Server = self._do(asyncio.start_server(self._accept, HOST, 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._links)

    def transferred(self, direction: str) -> int:
        """How many bytes went through; ``requests`` or ``answers``."""
        return self._directions[direction].bytes

    def bend(self, shape: Shape) -> None:
        """Treat what comes from now on as a link of this shape would, each way."""
        self._do(self._each(BOTH, lambda direction: direction.line.bend(shape)))

    def hold(self, *directions: str) -> None:
        """Let nothing through, ``requests``, ``answers`` or (by default) both, but leave connections open."""
        self._do(self._each(directions or BOTH, lambda direction: direction.open.clear()))

    def release(self, *directions: str) -> None:
        """End `hold`: what has waited goes on."""
        self._do(self._each(directions or BOTH, lambda direction: direction.open.set()))

    def hold_next(self, api_key: int, seconds: float, what: str = "request") -> Held:
        """Keep back the next request of a kind, or its answer (``what="answer"``), and what follows it there.

        ``held.caught`` is set when it came, ``held.passed`` when it went on.
        """
        assert self._frames and what in ("request", "answer")
        held = Held(api_key, seconds, what)
        self._do(self._add(held))
        return held

    def let_go(self, held: Held) -> None:
        """Let something held go on before its time."""
        self._loop.call_soon_threadsafe(held.freed.set)

    def reset(self) -> None:
        """Break every connection that is there; clients may connect again."""
        self._do(self._break())

    def cut(self) -> None:
        """Break every connection, and every new one, until `heal`."""
        self._cut = True
        self.reset()

    def heal(self) -> None:
        """Let everything through at once again."""
        self._cut = False
        self.bend(Shape())
        self.release()

    def close(self) -> None:
        """Break everything and end."""
        self.cut()
        self._server.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _make_directions(self, seed: int) -> dict[str, _Direction]:
        made = {name: _Direction(asyncio.Event(), Line(seed + number)) for number, name in enumerate(BOTH)}
        for direction in made.values():
            direction.open.set()
        return made

    async def _each(self, names: tuple[str, ...], do: Callable[[_Direction], None]) -> None:
        for name in names:
            do(self._directions[name])

    async def _add(self, held: Held) -> None:
        self._held.append(held)

    async def _break(self) -> None:
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        server: asyncio.StreamWriter | None = None
        try:
            if self._cut:
                return
            host, _, port = self.target.rpartition(":")
            answers, server = await asyncio.open_connection(host, int(port))
            pumps = [
                asyncio.create_task(self._pump(reader, server, "requests", id(link))),
                asyncio.create_task(self._pump(answers, writer, "answers", id(link))),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            return
        except asyncio.CancelledError:
            return
        finally:
            self._links.discard(link)
            for end in (writer, server):
                if end is not None:
                    end.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, into: asyncio.StreamWriter, name: str, link: int) -> None:
        """Bring bytes from one end to the other; returns when either is closed."""
        queue: asyncio.Queue[tuple[float, bytes, bool]] = asyncio.Queue(_ON_THE_WAY)
        direction = self._directions[name]

        async def read() -> None:
            due = 0.0
            async for piece in self._pieces(source):
                for start in range(0, len(piece), _SLICE):
                    part = piece[start : start + _SLICE]
                    due = direction.line.arrival(self._loop.time(), len(part), due)
                    await queue.put((due, part, start == 0))
            await queue.put((due, b"", False))

        reading = asyncio.create_task(read())
        try:
            while True:
                due, part, first = await queue.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                if not part:
                    return
                if self._frames and first:
                    await self._catch(part, name, link)
                await direction.open.wait()
                into.write(part)
                await into.drain()
                direction.bytes += len(part)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _pieces(self, source: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Yield frames of Kafka's protocol, or whatever comes."""
        with suppress(asyncio.IncompleteReadError, OSError):
            while self._frames:
                size = await source.readexactly(4)
                length = int.from_bytes(size, "big")
                if length > _LARGEST_FRAME:
                    raise OSError("this is not Kafka's protocol in clear")
                yield size + await source.readexactly(length)
            while piece := await source.read(_SLICE):
                yield piece

    async def _catch(self, frame: bytes, name: str, link: int) -> None:
        """Wait if what begins here is a request, or an answer, that somebody wants held."""
        if name == "requests":
            api_key = int.from_bytes(frame[4:6], "big")
            self.requests[api_key] += 1
            wanted = [held for held in self._held if held.correlation is None and held.api_key == api_key]
            if not wanted:
                return
            held = wanted[0]
            held.correlation = (link, frame[8:12])
            if held.what == "answer":
                return
        else:
            here = (link, frame[4:8])
            wanted = [held for held in self._held if held.what == "answer" and held.correlation == here]
            if not wanted:
                return
            held = wanted[0]
        self._held.remove(held)
        held.caught.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(held.freed.wait(), held.seconds)
        held.passed.set()


def proxied_listener(proxy: TcpProxy) -> Listener:
    """Return a door of a broker, beside its own, that sends clients through the proxy.

    ``broker = LocalBroker(folder, listeners=[proxied_listener(proxy)]).start()``, then `point_at`; clients connect to
    ``proxy.address``. What the broker says to itself does not go through it.
    """
    return Listener("PLAINTEXT", name=NAME, advertised=proxy.port)


def point_at(proxy: TcpProxy, broker: LocalBroker) -> str:
    """Let the proxy lead to the door of a broker that runs, and return where clients connect."""
    proxy.target = broker.address(NAME)
    return proxy.address
