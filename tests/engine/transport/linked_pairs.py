"""Both ends of a link in this process, for tests of links."""

import atexit
import os
import select
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path

from penstock.engine.core.clock import ManualClock
from penstock.engine.transport.framed_link import FramedLink
from penstock.engine.transport.greeting import Greeting
from penstock.engine.transport.handshake import NONCE_BYTES, Ability, Hello, Recognise, connect, listen
from penstock.engine.transport.ring_link import RingLink
from penstock.engine.transport.socket_link import SocketLink
from penstock.engine.transport.tls import Tls, TlsFiles, TlsSocket
from tests.certificates import make_authority, make_certificate

TOKEN = b"token of the tests"

CERTIFICATES = Path(tempfile.gettempdir()) / f"penstock-certificates-{os.getpid()}"
"""A folder of this process for certificates; another process that makes the other end is told of it."""

SMALL_RING_BYTES = 64 << 10
SMALL_BUFFER_BYTES = {socket.AF_UNIX: 4 << 10, socket.AF_INET: 64 << 10}
"""What a socket holds, by family; with less than a segment of the loopback TCP waits for timers."""

Links = Callable[[], AbstractContextManager[tuple[FramedLink, FramedLink]]]


@contextmanager
def ring_links(ring_bytes: int = SMALL_RING_BYTES) -> Iterator[tuple[RingLink, RingLink]]:
    """Give two ends that have agreed, and close them."""
    one, other = socket.socketpair()
    greetings = greet(one, connects=True, ring_bytes=ring_bytes), greet(other, connects=False, ring_bytes=ring_bytes)
    while any(greeting.by_ring is None for greeting in greetings):
        for greeting in greetings:
            proceed(greeting)
    left, right = greetings[0].link(ManualClock(), "the other"), greetings[1].link(ManualClock(), "one")
    assert isinstance(left, RingLink) and isinstance(right, RingLink)
    try:
        yield left, right
    finally:
        left.close()
        right.close()


def greet(end: socket.socket, *, connects: bool, ring_bytes: int = SMALL_RING_BYTES) -> Greeting:
    """Begin the greeting of one end, of those of which one connects and the other listens."""
    if connects:
        return Greeting(
            end, connect(Hello("one", "other", 1, Ability.RING), TOKEN, os.urandom(NONCE_BYTES)), ring_bytes
        )
    return Greeting(end, listen("other", TOKEN, os.urandom(NONCE_BYTES)), ring_bytes)


def proceed(greeting: Greeting) -> None:
    """Let a greeting go on as far as it can."""
    greeting.proceed()
    if isinstance(greeting._command, Recognise) and greeting._reply is None:
        greeting.recognise(Ability.RING)
        greeting.proceed()


@contextmanager
def socket_links(kind: str) -> Iterator[tuple[SocketLink, SocketLink]]:
    """Give two ends of a Unix socket or of a TCP connection, plain or with TLS, and close them."""
    one, other = connected(kind)
    for end in (one, other):
        limit(end)
    if kind == "tls":
        one, other = tls_here().connect(one), tls_here().accept(other)
        secure(one, other)
    links = SocketLink(one, ManualClock(), "the other"), SocketLink(other, ManualClock(), "one")
    try:
        yield links
    finally:
        for link in links:
            link.close()


def connected(kind: str) -> tuple[socket.socket, socket.socket]:
    """Return two sockets that are connected."""
    if kind not in ("tcp", "tls"):
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


@cache
def tls_here(folder: Path = CERTIFICATES) -> Tls:
    """Return TLS with the certificate of a folder, which is made if there is none."""
    own, authority = folder / "own.pem", folder / "authority.pem"
    if not folder.exists():
        folder.mkdir()
        atexit.register(shutil.rmtree, folder)
        make_certificate(make_authority(authority), own)
    return Tls(TlsFiles(own, own, authority))


def secure(*ends: socket.socket) -> None:
    """Go through with the handshakes of TLS."""
    left = [end for end in ends if isinstance(end, TlsSocket)]
    while left:
        for end in list(left):
            try:
                end.secure()
            except BlockingIOError:
                select.select(left, [], [])
            else:
                left.remove(end)


def limit(end: socket.socket) -> None:
    """Let a socket hold little."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        end.setsockopt(socket.SOL_SOCKET, option, SMALL_BUFFER_BYTES[end.family])


def join(
    kind: str, end: socket.socket, peer: str, *, connects: bool = True, certificates: Path = CERTIFICATES
) -> FramedLink:
    """Make one end of a link of a kind; another process makes the other."""
    if kind != "ring":
        limit(end)
        if kind == "tls":
            tls = tls_here(certificates)
            end = tls.connect(end) if connects else tls.accept(end)
            secure(end)
        return SocketLink(end, ManualClock(), peer)
    greeting = greet(end, connects=connects)
    while greeting.by_ring is None:
        proceed(greeting)
        if greeting.by_ring is None:
            select.select([greeting], [], [])
    return greeting.link(ManualClock(), peer)


LINKS: dict[str, Links] = {"ring": ring_links, **{kind: partial(socket_links, kind) for kind in ("unix", "tcp", "tls")}}
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
