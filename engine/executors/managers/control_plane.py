"""The control plane: stream sockets to other processes, one thread for all of them, messages in envelopes.

A thin shell around `delivery`: frames of a length and an envelope. Nobody waits for a socket: what is sent is queued,
and the thread writes as the other end takes it.
"""

import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from penstock.engine.core.contract import Clock
from penstock.engine.executors.managers.delivery import Delivery, Ends, Envelope

LONGEST_FRAME = 1 << 30
"""The longest frame that is read, in bytes; a plan is the longest thing that is sent."""

LONGEST_FAREWELL_S = 1.0
"""How long the end waits for another end to take what was sent."""

_READ = 1 << 16
_LENGTH = struct.Struct("<I")

OnMessage = Callable[[str, bytes], None]
"""Takes the name of the other end and a message; called by the thread."""

OnClosed = Callable[[str, str], None]
"""Takes the name of the other end and why its link is gone; called by the thread, once for a link."""


@dataclass
class _Link:
    there: str
    delivery: Delivery
    sock: socket.socket | None = None
    """None: it is still to come, or the thread has not seen it; what is sent waits for that."""
    has_come: bool = False
    inbound: bytearray = field(default_factory=bytearray)
    outbound: bytearray = field(default_factory=bytearray)


class ControlPlane:
    """Links by the name of their other end. `add`, `send`, `heard_ns`, `remove`, `close` may be called by any thread.

    The sockets are the thread's alone.
    """

    def __init__(self, clock: Clock, on_message: OnMessage, on_closed: OnClosed) -> None:
        """Begin the thread, with no link."""
        self._clock = clock
        self._on_message = on_message
        self._on_closed = on_closed
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Envelope)
        self._lock = threading.Lock()
        self._links: dict[str, _Link] = {}
        self._new: deque[tuple[_Link, socket.socket | BaseException]] = deque()
        self._removed: deque[_Link] = deque()
        self._over = self._is_closed = False
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="penstock-control", daemon=True)
        self._thread.start()

    def add(self, end: socket.socket | Future[socket.socket], ends: Ends) -> None:
        """Take over a connected socket, or one that is still to come; it is closed with its link.

        What is sent waits for it. If it does not come, as the future says, the link is lost.
        """
        link = _Link(ends.there, Delivery(ends, self._clock.monotonic_ns()))
        with self._lock:
            self._links[ends.there] = link
        if isinstance(end, Future):
            end.add_done_callback(lambda come: self._connect(link, _outcome(come)))
        else:
            self._connect(link, end)

    def send(self, there: str, body: bytes) -> None:
        """Send a message; one to a link that is gone goes nowhere."""
        with self._lock:
            link = self._links.get(there)
            if link is not None:
                self._queue(link, link.delivery.send(body, self._clock.monotonic_ns()))
        self._wake()

    def heard_ns(self, there: str) -> int | None:
        """Return when the other end of a link was last heard, None if the link is gone or its socket has not come."""
        with self._lock:
            link = self._links.get(there)
            return link.delivery.heard_ns if link is not None and link.has_come else None

    def remove(self, there: str) -> None:
        """Close a link; what was not written is dropped, and nobody is told."""
        with self._lock:
            link = self._links.pop(there, None)
            if link is not None:
                self._removed.append(link)
        self._wake()

    def close(self) -> None:
        """Write what was sent, as far as the other ends take it soon, close all links and end the thread."""
        with self._lock:
            self._over = True
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake(self) -> None:
        # Who finds no room has woken the thread already; once it has ended there is nobody to wake.
        with suppress(OSError):
            self._waker.send(b"\0")

    def _connect(self, link: _Link, end: socket.socket | BaseException) -> None:
        with self._lock:
            is_late = self._is_closed
            if not is_late:
                link.has_come = isinstance(end, socket.socket)
                link.delivery.heard_ns = self._clock.monotonic_ns()
                self._new.append((link, end))
        if is_late and isinstance(end, socket.socket):
            end.close()
        self._wake()

    def _queue(self, link: _Link, envelope: Envelope) -> None:
        data = self._encoder.encode(envelope)
        link.outbound += _LENGTH.pack(len(data)) + data

    def _run(self) -> None:
        while not self._over:
            for key, events in self._selector.select(self._prepare()):
                link: _Link | None = key.data
                if link is None:
                    with suppress(BlockingIOError):
                        self._woken.recv(_READ)
                elif events & selectors.EVENT_READ and link.sock is not None:
                    self._read(link, link.sock)
        with self._lock:
            self._admit_new()
            self._is_closed = True
            socks = [(link.sock, link.outbound) for link in self._links.values() if link.sock is not None]
            removed = [link.sock for link in self._removed if link.sock is not None]
        for sock, outbound in socks:
            sock.settimeout(LONGEST_FAREWELL_S)
            with suppress(OSError):
                sock.sendall(outbound)
        for sock in (*removed, *(sock for sock, _ in socks)):
            sock.close()
        self._selector.close()
        self._woken.close()
        self._waker.close()

    def _prepare(self) -> float | None:
        """Let links come and go, queue what is due and write what can be written.

        Returns the seconds until more is due, None if nothing will be.
        """
        with self._lock:
            missing = self._admit_new()
            while self._removed:
                self._discard(self._removed.popleft())
            now_ns = self._clock.monotonic_ns()
            links = [link for link in self._links.values() if link.sock is not None]
            for link in links:
                # What was not even written need not be sent again.
                for envelope in [] if link.outbound else link.delivery.due(now_ns):
                    self._queue(link, envelope)
            due_ns = [link.delivery.due_ns() for link in links if not link.outbound]
        for link, error in missing:
            self._lose(link, f"it was not made: {error}")
        for link in links:
            self._write(link)
        return None if not due_ns else max(0.0, (min(due_ns) - now_ns) / 1e9)

    def _admit_new(self) -> list[tuple[_Link, BaseException]]:
        """Give links the sockets that have come; return those for which none comes, and why. The lock is held."""
        missing: list[tuple[_Link, BaseException]] = []
        while self._new:
            link, end = self._new.popleft()
            if isinstance(end, BaseException):
                missing.append((link, end))
            elif self._links.get(link.there) is not link:
                end.close()
            else:
                end.setblocking(False)
                link.sock = end
                self._selector.register(end, selectors.EVENT_READ, link)
        return missing

    def _write(self, link: _Link) -> None:
        reason: str | None = None
        with self._lock:
            sock = link.sock
            if sock is None or self._links.get(link.there) is not link:
                return
            try:
                while link.outbound:
                    del link.outbound[: sock.send(link.outbound)]
            except BlockingIOError:
                pass
            except OSError as error:
                reason = f"it cannot be written to: {error}"
            if reason is None:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.outbound else 0)
                self._selector.modify(sock, events, link)
        if reason is not None:
            self._lose(link, reason)

    def _read(self, link: _Link, sock: socket.socket) -> None:
        try:
            data = sock.recv(_READ)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(link, f"it cannot be read from: {error}")
            return
        if not data:
            self._lose(link, "its other end was closed")
            return
        link.inbound += data
        try:
            messages = self._take(link)
        except (msgspec.DecodeError, ValueError) as error:
            self._lose(link, f"it brought what is no message: {error}")
            return
        for message in messages:
            self._on_message(link.there, message)

    def _take(self, link: _Link) -> list[bytes]:
        """Return the messages of the whole frames that have come."""
        messages: list[bytes] = []
        inbound, at = link.inbound, 0
        while len(inbound) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(inbound, at)
            if length > LONGEST_FRAME:
                raise ValueError(f"a frame of {length} bytes")
            end = at + _LENGTH.size + length
            if len(inbound) < end:
                break
            envelope = self._decoder.decode(memoryview(inbound)[at + _LENGTH.size : end])
            with self._lock:
                messages += link.delivery.receive(envelope, self._clock.monotonic_ns())
            at = end
        del inbound[:at]
        return messages

    def _lose(self, link: _Link, reason: str) -> None:
        with self._lock:
            if self._links.get(link.there) is not link:
                return
            del self._links[link.there]
            self._discard(link)
        self._on_closed(link.there, reason)

    def _discard(self, link: _Link) -> None:
        if link.sock is not None:
            with suppress(KeyError):
                self._selector.unregister(link.sock)
            link.sock.close()


def _outcome(come: Future[socket.socket]) -> socket.socket | BaseException:
    """Return what a future that is done has brought."""
    if come.cancelled():
        return CancelledError("it is not awaited any more")
    return come.exception() or come.result()
