"""A handshake on a connected socket: does what the handshake says as far as the socket lets it, and never waits."""

import os
import socket
import ssl
from contextlib import suppress

from penstock.engine.core.contract import Clock
from penstock.engine.transport.framed_link import FramedLink
from penstock.engine.transport.handshake import (
    NO,
    YES,
    Ability,
    Command,
    Handshake,
    Hello,
    OfferRing,
    Read,
    Recognise,
    StrangerError,
    TryRing,
    Write,
)
from penstock.engine.transport.ring import Ring, make_ring
from penstock.engine.transport.ring_link import RingLink
from penstock.engine.transport.ring_offer import NO_OFFER, offer, take_offer
from penstock.engine.transport.socket_link import SocketLink
from penstock.engine.transport.tls import TlsSocket

RING_BYTES = 4 << 20


class Greeting:
    """A connection that is about to become a link."""

    def __init__(self, end: socket.socket, handshake: Handshake, ring_bytes: int = RING_BYTES) -> None:
        """Take over the connected socket, and begin the handshake of this side."""
        end.setblocking(False)
        self.hello: Hello | None = None
        """The words of the other side, once it has shown that it belongs to the job."""
        self.has_heard = False
        """Whether the other side has begun to speak as the handshake wants it."""
        self.by_ring: bool | None = None
        """Whether the link is one by rings, once the handshake is over."""
        self.reason_against_ring = "the connection is not by a Unix socket, or one side was told not to"
        self._socket = end
        # TLS has a handshake of its own, which comes before.
        self._to_secure = end if isinstance(end, TlsSocket) else None
        self._handshake = handshake
        self._ring_bytes = ring_bytes
        self._unsent = b""
        self._reply: bytes | None = None
        self._got = b""
        self._outgoing: Ring | None = None
        self._incoming: Ring | None = None
        self._descriptor_to_send: int | None = None
        self._descriptors: list[int] = []
        self._takes_descriptors = False
        self._command: Command | None = next(handshake)

    @property
    def family(self) -> int:
        """The family of the socket."""
        return self._socket.family

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def has_unsent(self) -> bool:
        """Return whether something waits for the socket to become writable."""
        return bool(self._unsent)

    def awaits_recognition(self) -> bool:
        """Return whether `recognise` is to be called when the attempt of the other side is made here."""
        return isinstance(self._command, Recognise) and self._reply is None

    def recognise(self, abilities: Ability) -> None:
        """Let the handshake go on, as the attempt of the other side is made here, with what this side is able to do."""
        self._reply = bytes([abilities])

    def is_open(self) -> bool:
        """Return whether a connection that awaits recognition is still there; the other side says nothing then."""
        try:
            if isinstance(self._socket, TlsSocket):
                return self._socket.is_silent()
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def proceed(self) -> None:
        """Do what can be done now.

        Raises:
            OSError: the connection is gone.
            StrangerError: the other side does not belong to the job.
            WorkerLostError: no link can be made with it.
        """
        with suppress(BlockingIOError):
            if self._to_secure is not None:
                self._secure(self._to_secure)
            while self._command is not None:
                self._flush()
                if self._reply is None:
                    self._do(self._command)
                if self._reply is None:
                    return
                self._flush()
                self._go_on()
        if self._command is None:
            with suppress(BlockingIOError):
                self._flush()

    def link(self, clock: Clock, peer: str) -> FramedLink:
        """Return the link that was agreed on; it takes everything over."""
        if self.by_ring and self._outgoing is not None and self._incoming is not None:
            return RingLink(self._socket, self._outgoing, self._incoming, clock, peer)
        self._close_rings()
        return SocketLink(self._socket, clock, peer)

    def take_socket(self) -> socket.socket:
        """Return the connected socket once the handshake is over; what follows on it is the caller's."""
        self._close_rings()
        return self._socket

    def close(self) -> None:
        """Let go of everything."""
        self._handshake.close()
        self._socket.close()
        self._close_rings()

    def _secure(self, end: TlsSocket) -> None:
        try:
            end.secure()
        except ssl.SSLError as error:
            raise StrangerError(f"it does not speak TLS as this side does: {error.reason or error}") from error
        self._to_secure = None

    def _do(self, command: Command) -> None:
        """Set the reply to a command once it is done, and what is to be sent before the handshake goes on."""
        match command:
            case Read(size):
                self._got += self._read(size - len(self._got))
                if len(self._got) == size:
                    self._reply, self._got = self._got, b""
                    self.has_heard = True
            case Write(content):
                self._unsent, self._reply = content, b""
            case Recognise(hello):
                self.hello = hello
            case OfferRing():
                self._unsent, self._reply = self._offer(), b""
                self._takes_descriptors = True
            case TryRing(words):
                self._unsent = self._reply = self._try(words)

    def _go_on(self) -> None:
        reply, self._reply = self._reply, None
        try:
            self._command = self._handshake.send(reply or b"")
        except StopIteration as end:
            self._command, self.by_ring = None, end.value

    def _flush(self) -> None:
        while self._unsent:
            if self._descriptor_to_send is None:
                taken = self._socket.send(self._unsent)
            else:
                taken = socket.send_fds(self._socket, [self._unsent], [self._descriptor_to_send])
                self._descriptor_to_send = None
            self._unsent = self._unsent[taken:]

    def _read(self, size: int) -> bytes:
        if self._takes_descriptors:
            more, descriptors, _, _ = socket.recv_fds(self._socket, size, 1, socket.MSG_CMSG_CLOEXEC)
            self._descriptors += descriptors
        else:
            more = self._socket.recv(size)
        if not more:
            raise ConnectionResetError("it closed the connection")
        return more

    def _offer(self) -> bytes:
        try:
            self._outgoing = make_ring(self._ring_bytes)
        except OSError as error:
            self.reason_against_ring = str(error)
            return NO_OFFER
        self._descriptor_to_send = self._outgoing.descriptor
        return offer(self._outgoing)

    def _try(self, words: bytes) -> bytes:
        if not self._descriptors:
            self.reason_against_ring = "the other side has none to offer"
            return NO
        try:
            self._incoming = take_offer(words, self._descriptors.pop())
        except OSError as error:
            self.reason_against_ring = str(error)
            return NO
        return NO if self._outgoing is None else YES

    def _close_rings(self) -> None:
        for ring in (self._outgoing, self._incoming):
            if ring is not None:
                ring.close()
        self._outgoing = self._incoming = None
        while self._descriptors:
            os.close(self._descriptors.pop())
