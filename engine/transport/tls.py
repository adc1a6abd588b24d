"""TLS on TCP connections between hosts: sockets that greetings, links and control planes use like plain ones.

The token of a run says who belongs to a job; TLS keeps others from reading what is sent. Both sides show a certificate
that the same authority has signed; host names are not compared, since addresses of nodes come and go.
"""

import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from penstock.model.errors import OptionError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM: the certificate of this host, its private key, and the authority that signs those of all hosts."""

    certificate: Path
    key: Path
    authority: Path

    def paths(self) -> tuple[str, str, str]:
        """Return the files as plain values, in the order of the fields."""
        return str(self.certificate), str(self.key), str(self.authority)


class TlsSocket(ssl.SSLSocket):
    """A connected socket that never waits: where there is nothing to be done now, `BlockingIOError` is raised."""

    def secure(self) -> None:
        """Go on with the TLS handshake as far as the other side has; nothing is to be sent or read before it is over.

        Raises:
            BlockingIOError: the other side is awaited.
            ssl.SSLError: it speaks no TLS, or its certificate is not one that this side accepts.
        """
        _now(self.do_handshake)

    def is_silent(self) -> bool:
        """Return whether the other side has said nothing, and is there."""
        try:
            socket.socket.recv(self, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        return False

    def send(self, data: "ReadableBuffer", flags: int = 0) -> int:
        """Send a portion; how much of it was taken."""
        return _now(lambda: super(TlsSocket, self).send(data, flags))

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Read what has come, up to a size."""
        return _now(lambda: super(TlsSocket, self).recv(buflen, flags))

    def sendmsg(  # type: ignore[override] # the library's class refuses it
        self, buffers: Iterable["ReadableBuffer"], *_: object
    ) -> int:
        """Send portions, as far as they are taken; how many bytes of them were."""
        whole = memoryview(b"".join(buffers))
        sent = 0
        while sent < len(whole):
            try:
                # A record at most is taken at once.
                sent += self.send(whole[sent:])
            except BlockingIOError:
                if not sent:
                    raise
                break
        return sent

    def recv_into(self, buffer: "WriteableBuffer", nbytes: int | None = None, flags: int = 0) -> int:
        """Fill a buffer as far as something has come: less than its size means that nothing is left to be read."""
        target = memoryview(buffer)[:nbytes]
        taken = 0
        while taken < len(target):
            try:
                more = self._read_into(target[taken:], flags)
            except OSError:
                # What was read before counts; an error is said again by the next call.
                if not taken:
                    raise
                break
            if not more:
                break
            taken += more
        return taken

    def recvmsg_into(  # type: ignore[override] # the library's class refuses it
        self, buffers: Iterable["WriteableBuffer"], *_: object
    ) -> tuple[int, list[tuple[int, int, bytes]], int, None]:
        """Fill buffers one after the other, as `recv_into` does."""
        taken = 0
        for buffer in buffers:
            size = memoryview(buffer).nbytes
            try:
                more = self.recv_into(buffer)
            except OSError:
                if not taken:
                    raise
                break
            taken += more
            if more < size:
                break
        return taken, [], 0, None

    def _read_into(self, target: memoryview, flags: int) -> int:
        return _now(lambda: super(TlsSocket, self).recv_into(target, None, flags))


class Tls:
    """TLS of one process, for connections that it accepts and that it makes."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files.

        Raises:
            OptionError: one of them is missing, cannot be read, or is not what it is named for.
        """
        self._accepting = _context(ssl.PROTOCOL_TLS_SERVER, files)
        # Nothing is resumed, and a connection that is over says so at once.
        self._accepting.num_tickets = 0
        self._connecting = _context(ssl.PROTOCOL_TLS_CLIENT, files)

    def accept(self, end: socket.socket) -> socket.socket:
        """Return a connection that was accepted, over TLS if it is one between hosts; it takes the socket over."""
        return _wrapped(self._accepting, end, is_server=True)

    def connect(self, end: socket.socket) -> socket.socket:
        """Return a connection that was made, over TLS if it is one between hosts; it takes the socket over."""
        return _wrapped(self._connecting, end, is_server=False)


def _context(protocol: "ssl._SSLMethod", files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.sslsocket_class = TlsSocket
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(files.authority)
    except OSError as error:
        raise OptionError(
            f"TLS between task managers cannot use certificate {files.certificate}, key {files.key} and authority "
            f"{files.authority}: {error}"
        ) from error
    return context


def _wrapped(context: ssl.SSLContext, end: socket.socket, *, is_server: bool) -> socket.socket:
    if end.family not in (socket.AF_INET, socket.AF_INET6):
        return end
    end.setblocking(False)
    return context.wrap_socket(end, is_server, do_handshake_on_connect=False)


def _now(act: Callable[[], _T]) -> _T:
    try:
        return act()
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
        raise BlockingIOError(str(error)) from None
