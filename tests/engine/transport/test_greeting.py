"""Greetings that do not go through: peers that die at each step, and memory that cannot be shared; nothing is left."""

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.elements import Barrier
from penstock.engine.transport.addresses import Dial, Transport, listen, ways_of, written
from penstock.engine.transport.greeting import Greeting
from penstock.engine.transport.handshake import NONCE_BYTES, Ability, Handshake, Hello, connect
from penstock.engine.transport.handshake import listen as listen_to
from penstock.engine.transport.link import Arrived, Link
from penstock.engine.transport.ring import Ring
from penstock.engine.transport.ring_offer import offer
from penstock.engine.transport.socket_link import SocketLink
from penstock.model.errors import WorkerLostError
from tests.engine.transport.linked_pairs import SMALL_RING_BYTES, TOKEN, descriptors, greet, proceed, rings_mapped
from tests.engine.transport.meetings import GivenUp, place

NONCE = b"n" * NONCE_BYTES


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before, mapped = descriptors(), rings_mapped()
    yield
    assert (descriptors() - before, rings_mapped()) == (set(), mapped)


class KilledError(Exception):
    """The peer dies here."""


def dying(handshake: Handshake, steps: int) -> Handshake:
    """Do so many steps of a handshake."""
    command = next(handshake)
    for _ in range(steps):
        reply = yield command
        try:
            command = handshake.send(reply)
        except StopIteration:
            break
    raise KilledError


class DyingPeer:
    """A peer that goes on with its greeting whenever it is called, until it dies."""

    def __init__(self, connection: Callable[[], socket.socket | None], handshake: Handshake, steps: int) -> None:
        self._connection = connection
        self._handshake = dying(handshake, steps)
        self._greeting: Greeting | None = None
        self._is_dead = False

    def __call__(self) -> None:
        if self._is_dead:
            return
        if self._greeting is None:
            end = self._connection()
            if end is None:
                return
            try:
                self._greeting = Greeting(end, self._handshake, SMALL_RING_BYTES)
            except KilledError:
                self._is_dead = True
                end.close()
                return
        try:
            proceed(self._greeting)
        except KilledError:
            self._is_dead = True
            self._greeting.close()


def lose(links: dict[str, Link]) -> None:
    """Be told by each that the other side is gone, and close it."""
    for link in links.values():
        with pytest.raises(WorkerLostError):
            link.receive()
        link.close()


@pytest.mark.parametrize("steps", range(9))
def test_a_peer_that_connects_and_dies(steps: int) -> None:
    own = place("b")
    dial = Dial(ways_of(own.address, None))
    peer = DyingPeer(dial.proceed, connect(Hello("a", "b", 0, Ability.RING), TOKEN, NONCE), steps)
    ends = GivenUp(8, peer)
    # Before its hello nobody knows who it was.
    with pytest.raises(WorkerLostError, match="given up" if steps < 3 else "a did not go through"):
        own.meet(0, {"a": "unix:@nowhere"}, ends)
    assert own.strangers == 0
    own.close()


@pytest.mark.parametrize("steps", range(11))
@pytest.mark.parametrize("transport", [None, Transport.TCP])
def test_a_peer_that_listens_and_dies(transport: Transport | None, steps: int) -> None:
    ways, listeners = listen("127.0.0.1", transport)
    own = place("a", transport)

    def accepted() -> socket.socket | None:
        try:
            return listeners[0].accept()[0]
        except BlockingIOError:
            return None

    peer = DyingPeer(accepted, listen_to("b", TOKEN, NONCE), steps)
    ends = GivenUp(8, peer)
    if steps >= (10 if transport is None else 7):
        # It has said all.
        lose(own.meet(0, {"b": written(ways)}, ends))
    else:
        with pytest.raises(WorkerLostError, match="b did not go through with the handshake for attempt 0"):
            own.meet(0, {"b": written(ways)}, ends)
    own.close()
    for listener in listeners:
        listener.close()


def without_descriptor(greeting: Greeting) -> bytes:
    return bytes(24)


def not_sealed(greeting: Greeting) -> bytes:
    descriptor = os.memfd_create("penstock-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, SMALL_RING_BYTES)
    greeting._outgoing = Ring(descriptor, SMALL_RING_BYTES)
    greeting._descriptor_to_send = descriptor
    return offer(greeting._outgoing)


def other_memory(greeting: Greeting) -> bytes:
    words = Greeting._offer(greeting)
    assert greeting._outgoing is not None
    greeting._outgoing.memory[:16] = 0
    return words


def other_size(greeting: Greeting) -> bytes:
    words = Greeting._offer(greeting)
    return (1 << 40).to_bytes(8, "little") + words[8:]


@pytest.mark.parametrize("bad", [without_descriptor, not_sealed, other_memory, other_size])
@pytest.mark.parametrize("offering", [0, 1])
def test_memory_that_cannot_be_shared_is_not_used(bad: Callable[[Greeting], bytes], offering: int) -> None:
    one, other = socket.socketpair()
    greetings = greet(one, connects=True), greet(other, connects=False)
    culprit = greetings[offering]
    culprit._offer = lambda: bad(culprit)  # type: ignore[method-assign]
    while any(greeting.by_ring is None for greeting in greetings):
        for greeting in greetings:
            proceed(greeting)
    links = [greeting.link(ManualClock(), "the other") for greeting in greetings]
    assert all(isinstance(link, SocketLink) for link in links)
    links[0].send(3, Barrier(1), None, 0, 0)
    links[0].flush()
    assert list(links[1].receive()) == [Arrived(3, Barrier(1))]
    for link in links:
        link.close()


def test_what_follows_the_handshake_is_left_to_the_link() -> None:
    one, other = socket.socketpair()
    greetings = greet(one, connects=True), greet(other, connects=False)
    while greetings[1].by_ring is None:
        for greeting in greetings:
            if greeting.by_ring is None:
                proceed(greeting)
    # One side has not read the last word yet.
    links = [greetings[1].link(ManualClock(), "one")]
    links[0].send(3, Barrier(1), None, 0, 0)
    links[0].flush()
    proceed(greetings[0])
    links.append(greetings[0].link(ManualClock(), "the other"))
    assert list(links[1].receive()) == [Arrived(3, Barrier(1))]
    for link in links:
        link.close()
