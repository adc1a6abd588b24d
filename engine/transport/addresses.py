"""Addresses of task managers: the ways by which one is reached, and connections that are made without waiting."""

import errno
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

BACKLOG = 128


class Transport(Enum):
    """The transports that links may be told to use; without a word it is `RING` where that can be, or else `TCP`."""

    RING = "ring"
    TCP = "tcp"


@dataclass(frozen=True, slots=True)
class Way:
    """A socket's address, of a Unix socket without a file (``@name``) or of TCP (``host:port``)."""

    kind: str
    place: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}"

    @property
    def family(self) -> socket.AddressFamily:
        """The family of sockets that reach it."""
        if self.kind == "unix":
            return socket.AF_UNIX
        return socket.AF_INET6 if self.place.startswith("[") else socket.AF_INET

    @property
    def target(self) -> str | tuple[str, int]:
        """What such a socket is bound or connected to."""
        if self.kind == "unix":
            return "\0" + self.place.removeprefix("@")
        host, _, port = self.place.rpartition(":")
        return host.strip("[]"), int(port)


def can_share_memory() -> bool:
    """Return whether this system has memory that can be given to another process through a Unix socket."""
    return hasattr(os, "memfd_create")


def listen(host: str, transport: Transport | None) -> tuple[list[Way], list[socket.socket]]:
    """Return the ways to sockets that listen, and those.

    Raises:
        OSError: nothing can listen at this host.
    """
    ways: list[Way] = []
    listeners: list[socket.socket] = []
    try:
        if transport is not Transport.TCP and can_share_memory():
            ways.append(Way("unix", f"@penstock-{secrets.token_hex(16)}"))
            listeners.append(_listener(ways[-1]))
        if transport is not Transport.RING:
            shown = f"[{host}]" if ":" in host else host
            listeners.append(_listener(Way("tcp", f"{shown}:0")))
            ways.append(Way("tcp", f"{shown}:{listeners[-1].getsockname()[1]}"))
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return ways, listeners


def written(ways: Sequence[Way]) -> str:
    """Return ways as one address."""
    return ";".join(map(str, ways))


def ways_of(address: str, transport: Transport | None) -> list[Way]:
    """Return the ways of an address that may be gone, the best first."""
    wanted = {None: ("unix", "tcp"), Transport.RING: ("unix",), Transport.TCP: ("tcp",)}[transport]
    ways = [Way(kind, place) for kind, _, place in (way.partition(":") for way in address.split(";"))]
    return [way for kind in wanted for way in ways if way.kind == kind and (kind == "tcp" or can_share_memory())]


class Dial:
    """A connection that is being made, by one way after the other."""

    def __init__(self, ways: Sequence[Way]) -> None:
        """Begin with the first way."""
        self._ways = list(ways)
        self._socket: socket.socket | None = None
        self._reasons: list[str] = []

    def pending(self) -> socket.socket | None:
        """Return the socket that becomes writable when `proceed` is to be called; None: call it again soon."""
        return self._socket

    def proceed(self) -> socket.socket | None:
        """Return the connected socket, which belongs to the caller then; None: not yet.

        Raises:
            OSError: no way leads there, for the reasons that the error says.
        """
        while self._ways:
            try:
                return self._try(self._ways[0])
            except OSError as error:
                self._reasons.append(f"{self._ways.pop(0)}: {error.strerror or error}")
                self.close()
        raise OSError("; ".join(self._reasons) or "no way is known by which both can be reached")

    def close(self) -> None:
        """Let go of the connection that is being made."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _try(self, way: Way) -> socket.socket | None:
        if self._socket is None:
            self._socket = socket.socket(way.family)
            self._socket.setblocking(False)
            try:
                self._socket.connect(way.target)
            except BlockingIOError as error:
                if error.errno != errno.EINPROGRESS:
                    # Too many wait to be accepted there; such a socket has to be made anew.
                    self.close()
                return None
        elif not _is_connected(self._socket):
            return None
        end, self._socket = self._socket, None
        return end


def _is_connected(end: socket.socket) -> bool:
    code = end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
    try:
        end.getpeername()
    except OSError:
        # It is still on its way.
        return False
    return True


def _listener(way: Way) -> socket.socket:
    listener = socket.socket(way.family)
    try:
        listener.setblocking(False)
        listener.bind(way.target)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
