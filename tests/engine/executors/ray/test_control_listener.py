"""Task managers connect to their head by TCP, and strangers do not."""

import os
import socket
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress

import pytest

from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.ray.control_listener import ControlListener
from penstock.engine.executors.ray.control_socket import connect_to_head
from penstock.engine.transport.addresses import ways_of
from penstock.engine.transport.handshake import MAGIC, NONCE_BYTES
from penstock.engine.transport.meeting import MOST_UNKNOWN
from penstock.engine.transport.tls import Tls
from penstock.model.errors import WorkerLostError
from tests.engine.transport.linked_pairs import descriptors, tls_here

TOKEN = bytes(range(32))
WAIT_S = 60.0
TLS_ALERT = b"\x15"


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest) -> Tls | None:
    return tls_here() if request.param == "tls" else None


@pytest.fixture
def listener(tls: Tls | None) -> Iterator[ControlListener]:
    before = descriptors()
    listener = ControlListener(TOKEN, 3, "127.0.0.1", SystemClock(), tls)
    yield listener
    listener.close()
    assert descriptors() - before == set()


def join(listener: ControlListener, name: str, token: bytes = TOKEN, run: int = 3) -> socket.socket:
    return connect_to_head(listener.address, token, name, run, SystemClock(), listener._tls)


def knock(listener: ControlListener, words: bytes = b"") -> socket.socket:
    (way,) = ways_of(listener.address, None)
    end = socket.socket(way.family)
    end.settimeout(WAIT_S)
    end.connect(way.target)
    end.sendall(words)
    return end


def come(future: "Future[socket.socket]") -> socket.socket:
    return future.result(WAIT_S)


def test_each_task_manager_gets_the_socket_that_awaits_it(listener: ControlListener) -> None:
    futures = {name: listener.expect(name) for name in ("tm-0", "tm-1", "tm-2")}
    for name in ("tm-1", "tm-0"):
        here, there = join(listener, name), come(futures[name])
        for one, other in ((here, there), (there, here)):
            one.sendall(name.encode())
            other.settimeout(WAIT_S)
            assert other.recv(100) == name.encode()
        here.close()
        there.close()
    assert not futures["tm-2"].done()


def test_who_is_not_expected_is_sent_away(listener: ControlListener) -> None:
    future = listener.expect("tm-0")
    cases = {"another token": ("tm-0", bytes(32), 3), "another run": ("tm-0", TOKEN, 2), "a name": ("tm-7", TOKEN, 3)}
    for name, token, run in cases.values():
        with pytest.raises(WorkerLostError, match="cannot reach the head of its job"):
            join(listener, name, token, run)
    assert listener.strangers == len(cases)
    assert not future.done()


def test_a_name_is_taken_once(listener: ControlListener) -> None:
    future = listener.expect("tm-0")
    ends = [join(listener, "tm-0"), come(future)]
    with pytest.raises(WorkerLostError):
        join(listener, "tm-0")
    for end in ends:
        end.close()


def test_strangers_learn_nothing_and_hold_nobody_up(listener: ControlListener, tls: Tls | None) -> None:
    silent = [knock(listener, words) for words in (b"", MAGIC[:3], MAGIC)]
    babbling = knock(listener, b"GET / HTTP/1.1\r\n\r\n")
    guessing = knock(listener, MAGIC + os.urandom(NONCE_BYTES) + bytes(1_000))
    future = listener.expect("tm-0")
    ends = [join(listener, "tm-0"), come(future)]
    with suppress(ConnectionResetError):
        assert babbling.recv(1_000)[:1] in ((b"",) if tls is None else (b"", TLS_ALERT))
    # Random bytes are all that is said to whoever has no token, an alert to whoever speaks no TLS.
    if tls is None:
        assert len(guessing.recv(1_000)) == NONCE_BYTES
    else:
        with suppress(ConnectionResetError):
            assert guessing.recv(1_000)[:1] in (b"", TLS_ALERT)
    for end in [*silent, babbling, guessing, *ends]:
        end.close()


def test_a_crowd_that_says_nothing_makes_room(listener: ControlListener) -> None:
    crowd = [knock(listener) for _ in range(MOST_UNKNOWN + 1)]
    assert crowd[0].recv(1) == b""
    future = listener.expect("tm-0")
    for end in [join(listener, "tm-0"), come(future), *crowd]:
        end.close()


def test_who_is_dismissed_is_not_awaited(listener: ControlListener) -> None:
    future = listener.expect("tm-0")
    listener.dismiss("tm-0")
    with pytest.raises(CancelledError):
        future.result(WAIT_S)
    with pytest.raises(WorkerLostError):
        join(listener, "tm-0")


def test_a_listener_that_is_closed_awaits_nobody() -> None:
    listener = ControlListener(TOKEN, 3, "127.0.0.1", SystemClock())
    future = listener.expect("tm-0")
    listener.close()
    assert future.cancelled()
    with pytest.raises(WorkerLostError, match="cannot reach"):
        join(listener, "tm-0")
