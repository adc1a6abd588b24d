"""The control plane over real sockets."""

import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.managers.control_plane import LONGEST_FRAME, ControlPlane
from penstock.engine.executors.managers.delivery import Ends

WAIT_S = 60


class Side:
    """A control plane, and what has come to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: SimpleQueue[tuple[str, bytes]] = SimpleQueue()
        self.closed: SimpleQueue[tuple[str, str]] = SimpleQueue()
        self.plane = ControlPlane(
            SystemClock(),
            lambda there, body: self.messages.put((there, body)),
            lambda there, why: self.closed.put((there, why)),
        )

    def join(self, other: "Side", run: int = 1) -> None:
        mine, theirs = socket.socketpair()
        self.plane.add(mine, Ends("job", run, self.name, other.name))
        other.plane.add(theirs, Ends("job", run, other.name, self.name))


@contextmanager
def sides(*names: str) -> Iterator[list[Side]]:
    made = [Side(name) for name in names]
    try:
        yield made
    finally:
        for side in made:
            side.plane.close()


def test_messages_cross_in_order_whatever_their_length() -> None:
    with sides("head", "tm-0", "tm-1") as (head, *managers):
        for manager in managers:
            head.join(manager)
        bodies = [b"%d" % number + b"x" * (number * 997 % 70_000) for number in range(200)]
        for body in bodies:
            for manager in managers:
                head.plane.send(manager.name, body)
                manager.plane.send("head", body)
        for manager in managers:
            assert [manager.messages.get(timeout=WAIT_S) for _ in bodies] == [("head", body) for body in bodies]
        received = [head.messages.get(timeout=WAIT_S) for _ in range(2 * len(bodies))]
        for manager in managers:
            assert [body for there, body in received if there == manager.name] == bodies


def test_sending_waits_for_nobody() -> None:
    with sides("head") as (head,):
        mine, theirs = socket.socketpair()
        head.plane.add(mine, Ends("job", 1, "head", "tm-0"))
        # Nobody reads: a socket holds a few hundred kilobytes at most.
        for _ in range(100):
            head.plane.send("tm-0", bytes(1 << 20))
        assert head.closed.empty()
        theirs.close()
        assert head.closed.get(timeout=WAIT_S)[0] == "tm-0"


def test_what_is_sent_waits_for_a_socket_that_is_still_to_come() -> None:
    with sides("head", "tm-0") as (head, manager):
        mine, theirs = socket.socketpair()
        coming: Future[socket.socket] = Future()
        head.plane.add(coming, Ends("job", 1, "head", "tm-0"))
        bodies = [b"%d" % number for number in range(5)]
        for body in bodies:
            head.plane.send("tm-0", body)
        assert head.plane.heard_ns("tm-0") is None
        manager.plane.add(theirs, Ends("job", 1, "tm-0", "head"))
        coming.set_result(mine)
        assert [manager.messages.get(timeout=WAIT_S) for _ in bodies] == [("head", body) for body in bodies]
        manager.plane.send("head", b"here")
        assert head.messages.get(timeout=WAIT_S) == ("tm-0", b"here")
        assert head.plane.heard_ns("tm-0") is not None


def test_a_link_counts_from_when_it_was_added_however_busy_the_thread_is() -> None:
    busy, go_on = threading.Event(), threading.Event()

    def keep_busy(there: str, body: bytes) -> None:
        busy.set()
        go_on.wait(WAIT_S)

    plane = ControlPlane(SystemClock(), keep_busy, lambda there, why: None)
    with sides("tm-0", "tm-1") as others:
        for other in others:
            mine, theirs = socket.socketpair()
            other.plane.add(theirs, Ends("job", 1, other.name, "head"))
            plane.add(mine, Ends("job", 1, "head", other.name))
            assert plane.heard_ns(other.name) is not None
            other.plane.send("head", b"")
            assert busy.wait(WAIT_S)
        go_on.set()
        plane.close()


def test_a_socket_that_does_not_come_is_a_lost_link() -> None:
    with sides("head") as (head,):
        for name, end in {"tm-0": OSError("no way"), "tm-1": None}.items():
            coming: Future[socket.socket] = Future()
            head.plane.add(coming, Ends("job", 1, "head", name))
            head.plane.send(name, b"hello")
            if end is None:
                coming.cancel()
            else:
                coming.set_exception(end)
            there, reason = head.closed.get(timeout=WAIT_S)
            assert there == name and ("no way" in reason or "not awaited" in reason)


@pytest.mark.parametrize("is_closed", [False, True], ids=["link removed", "plane closed"])
def test_a_socket_that_comes_too_late_is_closed(is_closed: bool) -> None:
    with sides("head") as (head,):
        mine, theirs = socket.socketpair()
        theirs.settimeout(WAIT_S)
        coming: Future[socket.socket] = Future()
        head.plane.add(coming, Ends("job", 1, "head", "tm-0"))
        if is_closed:
            head.plane.close()
        else:
            head.plane.remove("tm-0")
        coming.set_result(mine)
        assert theirs.recv(1) == b""
        assert head.closed.empty()
        theirs.close()


def test_an_end_that_is_closed_is_told_once_and_what_is_sent_afterwards_goes_nowhere() -> None:
    with sides("head", "tm-0") as (head, manager):
        head.join(manager)
        manager.plane.send("head", b"hello")
        assert head.messages.get(timeout=WAIT_S) == ("tm-0", b"hello")
        manager.plane.close()
        # Whether it is seen by reading or by writing an acknowledgement depends on who is faster.
        assert head.closed.get(timeout=WAIT_S)[0] == "tm-0"
        head.plane.send("tm-0", b"too late")
        assert head.plane.heard_ns("tm-0") is None
        assert head.closed.empty()


@pytest.mark.parametrize("data", [struct.pack("<I", LONGEST_FRAME + 1), struct.pack("<I", 3) + b"\x93\x01\x02"])
def test_a_link_that_brings_nonsense_is_closed(data: bytes) -> None:
    with sides("head") as (head,):
        mine, theirs = socket.socketpair()
        head.plane.add(mine, Ends("job", 1, "head", "tm-0"))
        theirs.sendall(data)
        there, reason = head.closed.get(timeout=WAIT_S)
        assert there == "tm-0" and "it brought what is no message" in reason
        theirs.close()


def test_a_link_that_is_removed_is_closed_without_a_word_to_its_owner() -> None:
    with sides("head", "tm-0") as (head, manager):
        head.join(manager)
        head.plane.remove("tm-0")
        assert manager.closed.get(timeout=WAIT_S)[0] == "head"
        assert head.closed.empty()


def test_messages_of_another_run_are_not_heard() -> None:
    with sides("head", "tm-0") as (head, manager):
        mine, theirs = socket.socketpair()
        head.plane.add(mine, Ends("job", 2, "head", "tm-0"))
        manager.plane.add(theirs, Ends("job", 1, "tm-0", "head"))
        before = head.plane.heard_ns("tm-0")
        manager.plane.send("head", b"old")
        manager.plane.close()
        assert head.closed.get(timeout=WAIT_S)[0] == "tm-0"
        assert head.messages.empty() and before is not None


def test_nothing_is_left_of_a_closed_plane() -> None:
    before = threading.active_count()
    with sides("head", "tm-0") as (head, manager):
        head.join(manager)
    assert threading.active_count() == before
    with pytest.raises(OSError, match="Bad file descriptor"):
        head.plane._woken.getpeername()
