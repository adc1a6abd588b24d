"""TLS between hosts: nobody reads along, and who has another certificate, or none, is a stranger."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.engine.core.elements import Batch
from penstock.engine.transport.addresses import Transport, ways_of
from penstock.engine.transport.link import Arrived, Link
from penstock.engine.transport.tls import Tls, TlsFiles
from penstock.model.errors import OptionError, WorkerLostError
from tests.certificates import make_authority, make_certificate
from tests.engine.transport.linked_pairs import descriptors, tls_here
from tests.engine.transport.meetings import never, place, together

WORDS = "the name of a client"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    tls_here()
    before = descriptors()
    yield
    assert descriptors() - before == set()


@pytest.fixture
def foreign(tmp_path: Path) -> Tls:
    """Certificates of another authority."""
    authority = make_authority(tmp_path / "authority.pem")
    own = make_certificate(authority, tmp_path / "own.pem")
    return Tls(TlsFiles(own, own, authority.file))


class Eavesdropper:
    """Passes on what is said between two sides of one connection, and keeps it."""

    def __init__(self, address: str) -> None:
        (self._way,) = ways_of(address, Transport.TCP)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard = b""
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def close(self) -> None:
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        with self._listener:
            one, _ = self._listener.accept()
        other = socket.socket(self._way.family)
        other.connect(self._way.target)
        back = threading.Thread(target=self._pass_on, args=(other, one))
        back.start()
        self._pass_on(one, other)
        back.join()
        one.close()
        other.close()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            # Each side may close while words of the other are on their way.
            while more := source.recv(1 << 16):
                self.heard += more
                target.sendall(more)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def send(link: Link, rows: pa.RecordBatch) -> None:
    link.send(0, Batch(rows), None, rows.num_rows, rows.nbytes)
    link.end()
    farewell(link)
    link.close()


def farewell(link: Link) -> list[object]:
    """Go on until both sides have ended."""
    arrivals: list[object] = []
    while not link.has_ended() or link.has_unsent():
        link.flush()
        arrivals += link.receive()
    return arrivals


@pytest.mark.parametrize("is_secret", [True, False])
def test_nobody_reads_along(is_secret: bool) -> None:
    tls = tls_here() if is_secret else None
    one, other = (place(name, Transport.TCP, tls=tls) for name in ("a", "b"))
    between = Eavesdropper(other.address)
    rows = pa.record_batch({"client": [WORDS] * 1_000})
    arrived: list[object] = []

    def take() -> None:
        link = other.meet(0, {"a": one.address}, never)["a"]
        link.end()
        arrived.extend(farewell(link))
        link.close()

    together([lambda: send(one.meet(0, {"b": between.address}, never)["b"], rows), take])
    between.close()
    one.close()
    other.close()
    assert [element.element.rows for element in arrived if isinstance(element, Arrived)] == [rows]
    assert (WORDS.encode() in between.heard, b"client" in between.heard) == (not is_secret, not is_secret)


def test_who_speaks_in_the_clear_or_has_another_authority_is_a_stranger(foreign: Tls) -> None:
    for tls, own_tls in ((None, tls_here()), (foreign, tls_here()), (tls_here(), None)):
        own, other = place("b", Transport.TCP, tls=own_tls), place("a", Transport.TCP, tls=tls)
        errors: list[str] = []
        is_over = threading.Event()

        def meets(act: Callable[[], object], errors: list[str] = errors, is_over: threading.Event = is_over) -> None:
            with pytest.raises(WorkerLostError) as raised:
                act()
            errors.append(str(raised.value))
            is_over.set()

        together(
            [
                lambda other=other, own=own, meets=meets: meets(lambda: other.meet(0, {"b": own.address}, never)),
                lambda own=own, meets=meets, is_over=is_over: meets(
                    lambda: own.meet(0, {"a": "tcp:127.0.0.1:1"}, is_over.is_set)
                ),
            ]
        )
        assert own.strangers == 1
        assert errors[1] == "given up"
        assert "b" in errors[0] and ("TLS" in errors[0] or "did not go through with the handshake" in errors[0])
        own.close()
        other.close()


def test_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    authority = make_authority(tmp_path / "authority.pem")
    own = make_certificate(authority, tmp_path / "own.pem")
    with pytest.raises(OptionError, match=r"missing\.pem.*No such file"):
        Tls(TlsFiles(tmp_path / "missing.pem", own, authority.file))
    with pytest.raises(OptionError, match=r"certificate .*authority\.pem, key .*authority\.pem"):
        Tls(TlsFiles(authority.file, authority.file, authority.file))


def test_unix_sockets_stay_as_they_are() -> None:
    one, other = (place(name, Transport.RING, tls=tls_here()) for name in ("a", "b"))
    links: list[Link] = []
    together(
        (lambda me=me, there=there, name=name: links.extend(me.meet(0, {name: there.address}, never).values()))
        for me, there, name in ((one, other, "b"), (other, one, "a"))
    )
    for link in links:
        link.close()
    one.close()
    other.close()
