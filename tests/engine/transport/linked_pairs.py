"""Both ends of a link in this process, for tests of links."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from penstock.engine.core.clock import ManualClock
from penstock.engine.transport.framed_link import FramedLink
from penstock.engine.transport.handshake import join_by_ring
from penstock.engine.transport.ring_link import RingLink
from penstock.engine.transport.socket_link import SocketLink

SMALL_RING_BYTES = 64 << 10
SMALL_BUFFER_BYTES = {socket.AF_UNIX: 4 << 10, socket.AF_INET: 64 << 10}
"""What a socket holds, by family; with less than a segment of the loopback TCP waits for timers."""

Links = Callable[[], AbstractContextManager[tuple[FramedLink, FramedLink]]]


@contextmanager
def ring_links(ring_bytes: int = SMALL_RING_BYTES) -> Iterator[tuple[RingLink, RingLink]]:
    """Give two ends that have agreed, and close them."""
    one, other = socket.socketpair()
    made: list[RingLink] = []
    thread = threading.Thread(target=lambda: made.append(join_by_ring(other, ManualClock(), "one", ring_bytes)))
    thread.start()
    left = join_by_ring(one, ManualClock(), "the other", ring_bytes)
    thread.join()
    try:
        yield left, made[0]
    finally:
        left.close()
        made[0].close()


@contextmanager
def socket_links(kind: str) -> Iterator[tuple[SocketLink, SocketLink]]:
    """Give two ends of a Unix socket or of a TCP connection, and close them."""
    one, other = connected(kind)
    for end in (one, other):
        limit(end)
    links = SocketLink(one, ManualClock(), "the other"), SocketLink(other, ManualClock(), "one")
    try:
        yield links
    finally:
        for link in links:
            link.close()


def connected(kind: str) -> tuple[socket.socket, socket.socket]:
    """Return two sockets that are connected."""
    if kind != "tcp":
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


def limit(end: socket.socket) -> None:
    """Let a socket hold little."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        end.setsockopt(socket.SOL_SOCKET, option, SMALL_BUFFER_BYTES[end.family])


def join(kind: str, end: socket.socket, peer: str) -> FramedLink:
    """Make one end of a link of a kind; the other process makes the other."""
    if kind == "ring":
        return join_by_ring(end, ManualClock(), peer, SMALL_RING_BYTES)
    limit(end)
    return SocketLink(end, ManualClock(), peer)


LINKS: dict[str, Links] = {"ring": ring_links, **{kind: partial(socket_links, kind) for kind in ("unix", "tcp")}}
"""Pairs of every kind."""


def descriptors() -> set[str]:
    """Return what this process has open."""
    return {f"{path.name}={target}" for path in Path("/proc/self/fd").iterdir() if (target := _target(path))}


def rings_mapped() -> int:
    """Return how many rings this process has in its memory."""
    return Path("/proc/self/maps").read_text().count("penstock-ring")


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        # The listing's own.
        return ""
