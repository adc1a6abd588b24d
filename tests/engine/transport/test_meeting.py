"""Meetings of task managers: any number, in any order, of several attempts; what fails leaves nothing."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.clock import ManualClock, SystemClock
from penstock.engine.transport import greeting as greeting_module
from penstock.engine.transport.addresses import Transport
from penstock.engine.transport.link import Link
from penstock.engine.transport.meeting import MEET_TIMEOUT_S, MeetingPlace
from penstock.engine.transport.ring_link import RingLink
from penstock.engine.transport.socket_link import SocketLink
from penstock.model.errors import WorkerLostError
from tests.engine.transport.linked_pairs import SMALL_RING_BYTES, TOKEN, descriptors, rings_mapped, tls_here
from tests.engine.transport.meetings import GivenUp, exchange, never, place, together

TRANSPORTS = [None, Transport.RING, Transport.TCP]
KINDS = {None: RingLink, Transport.RING: RingLink, Transport.TCP: SocketLink}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before, mapped, threads = descriptors(), rings_mapped(), set(threading.enumerate())
    yield
    assert (descriptors() - before, rings_mapped(), set(threading.enumerate()) - threads) == (set(), mapped, set())


@settings(max_examples=40)
@given(st.data())
def test_places_meet_in_any_order(data: st.DataObject) -> None:
    names = [f"tm-{number}" for number in range(data.draw(st.integers(2, 5)))]
    transport = data.draw(st.sampled_from(TRANSPORTS))
    rounds = data.draw(st.lists(st.sets(st.sampled_from(names), min_size=2), min_size=1, max_size=4))
    delays_s = {
        name: data.draw(st.lists(st.sampled_from([0.0, 0.001, 0.01]), min_size=4, max_size=4)) for name in names
    }
    tls = data.draw(st.sampled_from([None, tls_here()]))
    places = {name: place(name, transport, tls=tls) for name in names}

    def live(me: str) -> None:
        links: list[tuple[int, dict[str, Link]]] = []
        for attempt, members in enumerate(rounds):
            if me in members:
                threading.Event().wait(delays_s[me][attempt])
                peers = {peer: places[peer].address for peer in members if peer != me}
                links.append((attempt, places[me].meet(attempt, peers, never)))
                assert links[-1][1].keys() == peers.keys()
                assert all(isinstance(link, KINDS[transport]) for link in links[-1][1].values())
        for attempt, met in links:
            exchange(me, attempt, met)

    together((lambda me=name: live(me)) for name in names)
    for each in places.values():
        assert each.strangers == 0
        each.close()


@pytest.mark.parametrize("transport", [Transport.RING, Transport.TCP])
def test_processes_meet(transport: Transport) -> None:
    names = ["tm-0", "tm-1", "tm-2"]
    members = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.engine.transport.meeting_member", name, transport.value, "20"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    addresses = [member.stdout.readline().strip() for member in members if member.stdout]
    said = [f"{name}={address}" for name, address in zip(names, addresses, strict=True)]
    for member in members:
        assert member.stdin is not None
        member.stdin.write(" ".join(said) + "\n")
        member.stdin.flush()
    assert [member.communicate()[0] for member in members] == ["met 20 times, nothing left\n"] * 3


def test_a_hundred_rounds_of_which_each_third_is_given_up() -> None:
    places = {name: place(name) for name in ("a", "b")}
    before = descriptors()
    met: list[str] = []
    given_up = [threading.Event() for _ in range(100)]

    def live(me: str, peer: str) -> None:
        for attempt in range(100):
            if attempt % 3 == 2:
                if me == "b" and attempt % 2:
                    # Of each second one of these it comes too late.
                    assert given_up[attempt].wait(60)
                # Each may be through before the other gives up.
                with suppress(WorkerLostError):
                    ends = GivenUp(1) if me == "a" else never
                    for link in places[me].meet(attempt, {peer: places[peer].address}, ends).values():
                        link.close()
                    met.append(me)
                if me == "a":
                    given_up[attempt].set()
            else:
                exchange(me, attempt, places[me].meet(attempt, {peer: places[peer].address}, never))

    together([lambda: live("a", "b"), lambda: live("b", "a")])
    assert len(met) < 60 and len(descriptors()) == len(before)
    for each in places.values():
        each.close()


def test_who_is_ahead_waits_for_the_meeting_of_its_attempt() -> None:
    one, other, third = place("a"), place("b"), place("c")
    ahead = threading.Thread(target=lambda: exchange("a", 7, one.meet(7, {"b": other.address}, never)))
    started = threading.Event()

    def start() -> None:
        if not started.is_set():
            started.set()
            ahead.start()

    with pytest.raises(WorkerLostError, match="a meets for attempt 7 already, and does not come to b for attempt 5"):
        other.meet(5, {"a": one.address}, lambda: start() is not None)
    with pytest.raises(WorkerLostError, match=r"^given up$"):
        other.meet(6, {"c": third.address}, GivenUp(2))
    exchange("b", 7, other.meet(7, {"a": one.address}, never))
    ahead.join()
    for each in (one, other, third):
        each.close()


def test_who_comes_for_an_attempt_that_is_over_is_told_so_by_the_end() -> None:
    one, other, third = place("a"), place("b"), place("c")
    late: list[str] = []

    def come_late() -> None:
        with pytest.raises(WorkerLostError, match="b did not go through with the handshake for attempt 3") as raised:
            one.meet(3, {"b": other.address}, never)
        late.append(str(raised.value))

    thread = threading.Thread(target=come_late)
    thread.start()
    with pytest.raises(WorkerLostError, match="given up"):
        other.meet(4, {"c": third.address}, lambda: bool(late))
    thread.join()
    for each in (one, other, third):
        each.close()


@pytest.mark.parametrize("me", ["a", "z"])
def test_who_does_not_come_is_named_after_a_while(me: str) -> None:
    clock = ManualClock()
    peer = place("m")
    one = MeetingPlace(me, TOKEN, clock)

    def pass_time() -> bool:
        clock.advance_ns(MEET_TIMEOUT_S * 100_000_000)
        return False

    with pytest.raises(WorkerLostError, match=f"m did not meet {me} for attempt 0 within 600 s"):
        one.meet(0, {"m": peer.address}, pass_time)
    one.close()
    peer.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_place_that_is_closed_cannot_be_reached(transport: Transport | None) -> None:
    one, other = place("a", transport), place("b", transport)
    other.close()
    with pytest.raises(WorkerLostError, match=r"b cannot be reached from a: .*refused"):
        one.meet(0, {"b": other.address}, never)
    one.close()


def test_places_of_different_transports_know_no_way() -> None:
    one, other = place("a", Transport.RING), place("b", Transport.TCP)
    with pytest.raises(WorkerLostError, match="no way is known"):
        one.meet(0, {"b": other.address}, never)
    one.close()
    other.close()


@pytest.mark.parametrize("signal", ["STOP", "KILL"])
def test_a_process_that_is_stopped_or_killed_during_the_handshake(signal: str) -> None:
    member = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.transport.meeting_member", "tm-1", "ring", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert member.stdout is not None and member.stdin is not None
    address = member.stdout.readline().strip()
    if signal == "STOP":
        member.send_signal(19)
    one = place("tm-0")
    ends = GivenUp(3, member.kill if signal == "KILL" else lambda: None)
    with pytest.raises(WorkerLostError, match="given up" if signal == "STOP" else "tm-1 did not go through"):
        one.meet(0, {"tm-1": address}, ends if signal == "STOP" else lambda: ends() and False)
    member.kill()
    member.communicate()
    one.close()


@pytest.mark.parametrize("transport", [None, Transport.RING])
def test_memory_that_cannot_be_had_is_replaced_by_the_socket(
    monkeypatch: pytest.MonkeyPatch, transport: Transport | None
) -> None:
    def refuse(size: int) -> None:
        raise OSError("no memory for anybody")

    monkeypatch.setattr(greeting_module, "make_ring", refuse)
    places = {name: place(name, transport) for name in ("a", "b")}

    def live(me: str, peer: str) -> None:
        if transport is Transport.RING:
            with pytest.raises(WorkerLostError, match="memory"):
                places[me].meet(0, {peer: places[peer].address}, never)
            return
        links = places[me].meet(0, {peer: places[peer].address}, never)
        assert isinstance(links[peer], SocketLink) and links[peer]._socket.family == socket.AF_UNIX
        exchange(me, 0, links)

    together([lambda: live("a", "b"), lambda: live("b", "a")])
    for each in places.values():
        each.close()


def test_a_unix_socket_that_cannot_be_reached_is_replaced_by_tcp() -> None:
    places = {name: place(name) for name in ("a", "b")}
    tcp = places["b"].address.partition(";")[2]

    def live(me: str, peer: str, address: str) -> None:
        links = places[me].meet(0, {peer: address}, never)
        assert isinstance(links[peer], SocketLink) and links[peer]._socket.family == socket.AF_INET
        exchange(me, 0, links)

    together([lambda: live("a", "b", f"unix:@elsewhere;{tcp}"), lambda: live("b", "a", places["a"].address)])
    for each in places.values():
        each.close()


def test_rings_are_as_large_as_is_said() -> None:
    places = {name: place(name) for name in ("a", "b")}
    sizes: list[int] = []

    def live(me: str, peer: str) -> None:
        links = places[me].meet(0, {peer: places[peer].address}, never)
        link = links[peer]
        assert isinstance(link, RingLink)
        sizes.append(link._writer.room)
        exchange(me, 0, links)

    together([lambda: live("a", "b"), lambda: live("b", "a")])
    assert sizes == [SMALL_RING_BYTES] * 2
    for each in places.values():
        each.close()


def test_places_at_different_addresses_meet_by_tcp() -> None:
    addresses = {"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}
    places = {me: MeetingPlace(me, TOKEN, SystemClock(), Transport.TCP, host) for me, host in addresses.items()}
    for me, host in addresses.items():
        assert places[me].address.startswith(f"tcp:{host}:")

    def meet(me: str) -> None:
        peers = {peer: place.address for peer, place in places.items() if peer != me}
        links = places[me].meet(0, peers, never)
        assert all(isinstance(link, SocketLink) for link in links.values())
        exchange(me, 0, links)

    together((lambda me=me: meet(me)) for me in places)
    for each in places.values():
        each.close()
