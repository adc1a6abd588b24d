"""Strangers who connect to a meeting place: they learn nothing, hold nobody up, and are counted."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.transport.addresses import Way, ways_of
from penstock.engine.transport.handshake import MAGIC, NONCE_BYTES
from penstock.engine.transport.meeting import GREETING_TIMEOUT_S, MOST_UNKNOWN, MeetingPlace
from penstock.model.errors import WorkerLostError
from tests.engine.transport.linked_pairs import TOKEN, descriptors
from tests.engine.transport.meetings import GivenUp, exchange, never, place, together


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = descriptors()
    yield
    assert descriptors() - before == set()


def knock(way: Way, words: bytes = b"") -> socket.socket:
    """Connect and say something."""
    end = socket.socket(way.family)
    end.settimeout(30)
    end.connect(way.target)
    end.sendall(words)
    return end


def read_all(end: socket.socket) -> bytes:
    """Read to the end."""
    answer = b""
    try:
        while more := end.recv(1_000):
            answer += more
    except ConnectionResetError:
        # They were closed with words unread.
        pass
    return answer


def ways(*places: MeetingPlace) -> list[Way]:
    return [way for each in places for way in ways_of(each.address, None)]


def test_strangers_learn_nothing_and_hold_nobody_up() -> None:
    places = {name: place(name) for name in ("a", "b")}
    silent = [knock(way, words) for way in ways(*places.values()) for words in (b"", MAGIC[:3], MAGIC)]
    babbling = [knock(way, b"GET / HTTP/1.1\r\n\r\n") for way in ways(*places.values())]
    guessing = [knock(way, MAGIC + bytes(NONCE_BYTES) + bytes(1_000)) for way in ways(*places.values())]
    together(
        (lambda me=me, peer=peer: exchange(me, 0, places[me].meet(0, {peer: places[peer].address}, never)))
        for me, peer in (("a", "b"), ("b", "a"))
    )
    assert [each.strangers for each in places.values()] == [4, 4]
    assert [read_all(end) for end in babbling] == [b""] * 4
    assert [len(read_all(end)) for end in guessing] in ([NONCE_BYTES] * 4, [0] * 4)
    for each in places.values():
        each.close()
    assert [read_all(end) for end in silent] == [b""] * 12
    for end in (*silent, *babbling, *guessing):
        end.close()


def test_a_flood_of_strangers() -> None:
    places = {name: place(name) for name in ("a", "b")}
    is_over = threading.Event()

    def flood() -> None:
        while not is_over.is_set():
            for way in ways(*places.values()):
                with socket.socket(way.family) as end, suppress(OSError):
                    end.settimeout(0.1)
                    end.connect(way.target)
                    end.sendall(b"x" * 100)

    def live(me: str, peer: str) -> None:
        try:
            for attempt in range(20):
                exchange(me, attempt, places[me].meet(attempt, {peer: places[peer].address}, never))
        finally:
            is_over.set()

    together([flood, lambda: live("a", "b"), lambda: live("b", "a")])
    assert sum(each.strangers for each in places.values()) > 0
    for each in places.values():
        each.close()


def test_who_says_nothing_makes_room_and_is_sent_away_in_the_end() -> None:
    clock = ManualClock()
    own, peer = MeetingPlace("b", TOKEN, clock), place("a")
    way = ways(own)[0]
    ends: list[socket.socket] = []
    with pytest.raises(WorkerLostError, match="given up"):
        own.meet(0, {"a": peer.address}, GivenUp(4, lambda: ends.extend(knock(way) for _ in range(40))))
    assert own.strangers == 3 * 40 - MOST_UNKNOWN
    clock.advance_ns(GREETING_TIMEOUT_S * 1_000_000_000)
    with pytest.raises(WorkerLostError, match="given up"):
        own.meet(1, {"a": peer.address}, GivenUp(1))
    # The last 40 have come just now.
    assert own.strangers == 4 * 40 - 40
    for each in (*ends, own, peer):
        each.close()


def test_a_task_manager_of_another_job(caplog: pytest.LogCaptureFixture) -> None:
    one, other = place("a", token=b"another"), place("b")
    said: list[str] = []

    def come() -> None:
        with pytest.raises(WorkerLostError, match=r"b did not go through with the handshake .* or has another token"):
            one.meet(0, {"b": other.address}, never)
        said.append("refused")

    thread = threading.Thread(target=come)
    thread.start()
    with pytest.raises(WorkerLostError, match="given up"):
        other.meet(0, {"a": one.address}, lambda: bool(said))
    thread.join()
    assert other.strangers == 1
    assert "a connection to b is not by a task manager of its job: it has another token" in caplog.text
    one.close()
    other.close()
