"""The handshake of two sides, without sockets: what they agree on, and that a stranger learns nothing."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.transport.handshake import (
    MAGIC,
    NO,
    NONCE_BYTES,
    VERSION,
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
    connect,
    listen,
)
from penstock.engine.transport.ring_offer import NO_OFFER
from penstock.model.errors import WorkerLostError

TOKEN = b"the token"
HELLO = Hello("tm-0", "tm-1", 3)
ABILITIES = st.sampled_from([Ability.NONE, Ability.RING])
NAMES = st.text(max_size=60)


class Side:
    """One side, which does what its handshake says on bytes."""

    def __init__(self, handshake: Handshake, abilities: Ability = Ability.NONE, verdict: bytes = YES) -> None:
        self.said = b""
        self.hello: Hello | None = None
        self.by_ring: bool | None = None
        self._handshake = handshake
        self._abilities = abilities
        self._verdict = verdict
        self._command: Command | None = next(handshake)

    def turn(self, heard: bytes) -> bytes:
        """Go on as far as what is heard lasts; return what is left of it."""
        while self._command is not None:
            reply = b""
            match self._command:
                case Read(size):
                    if len(heard) < size:
                        break
                    reply, heard = heard[:size], heard[size:]
                case Write(content):
                    self.said += content
                case Recognise(hello):
                    self.hello, reply = hello, bytes([self._abilities])
                case OfferRing():
                    self.said += NO_OFFER
                case TryRing():
                    self.said += self._verdict
                    reply = self._verdict
            try:
                self._command = self._handshake.send(reply)
            except StopIteration as end:
                self._command, self.by_ring = None, end.value
        return heard


def talk(one: Side, other: Side, portion: int = 1_000) -> None:
    """Bring what each says to the other, in portions, until neither says more."""
    heard = {one: b"", other: b""}
    while one.said or other.said:
        for speaker, listener in ((one, other), (other, one)):
            heard[listener] = listener.turn(heard[listener] + speaker.said[:portion])
            speaker.said = speaker.said[portion:]
    assert heard == {one: b"", other: b""}


def start(*sides: Side) -> None:
    for side in sides:
        side.turn(b"")


@given(NAMES, NAMES, st.integers(0, (1 << 64) - 1), st.tuples(ABILITIES, ABILITIES), st.data())
def test_both_learn_who_the_other_is_and_whether_there_are_rings(
    me: str, peer: str, attempt: int, abilities: tuple[Ability, Ability], data: st.DataObject
) -> None:
    verdicts = data.draw(st.tuples(st.sampled_from([YES, NO]), st.sampled_from([YES, NO])))
    hello = Hello(me, peer, attempt, abilities[0])
    one = Side(connect(hello, TOKEN, b"a" * NONCE_BYTES), verdict=verdicts[0])
    other = Side(listen(peer, TOKEN, b"b" * NONCE_BYTES), abilities[1], verdicts[1])
    start(one, other)
    talk(one, other, data.draw(st.integers(1, 200)))
    assert other.hello == hello
    assert one.by_ring is other.by_ring is (abilities == (Ability.RING, Ability.RING) and verdicts == (YES, YES))


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_word_that_was_changed_on_its_way_is_a_strangers(place: int, change: int) -> None:
    one = Side(connect(HELLO, TOKEN, b"a" * NONCE_BYTES))
    other = Side(listen("tm-1", TOKEN, b"b" * NONCE_BYTES))
    start(one, other)
    first, one.said = one.said, b""
    assert other.turn(first) == b""
    one.turn(other.said)
    other.said = b""
    hello = bytearray(one.said)
    hello[place % len(hello)] ^= change
    # One that is said to be longer than it is, is not whole yet.
    with pytest.raises(StrangerError):
        other.turn(bytes(hello) + bytes(600))
    assert (other.said, other.hello) == (b"", None)


@given(words=st.binary(max_size=400), begins_well=st.booleans())
def test_whatever_a_stranger_says_it_is_not_recognised(words: bytes, *, begins_well: bool) -> None:
    other = Side(listen("tm-1", TOKEN, b"b" * NONCE_BYTES))
    with suppress(StrangerError):
        other.turn((MAGIC if begins_well else b"") + words)
    assert other.hello is None and other.said in (b"", b"b" * NONCE_BYTES)


def test_who_has_another_token_learns_random_bytes_alone() -> None:
    one = Side(connect(HELLO, b"another token", b"a" * NONCE_BYTES))
    other = Side(listen("tm-1", TOKEN, b"b" * NONCE_BYTES))
    start(one, other)
    other.turn(one.said)
    assert other.said == b"b" * NONCE_BYTES
    one.said = b""
    one.turn(other.said)
    other.said = b""
    with pytest.raises(StrangerError, match="token"):
        other.turn(one.said)
    assert other.said == b""


def test_who_begins_otherwise_learns_nothing() -> None:
    other = Side(listen("tm-1", TOKEN, b"b" * NONCE_BYTES))
    with pytest.raises(StrangerError):
        other.turn(b"GET / HT")
    assert other.said == b""


def test_words_of_another_time_are_a_strangers() -> None:
    one = Side(connect(HELLO, TOKEN, b"a" * NONCE_BYTES))
    other = Side(listen("tm-1", TOKEN, b"b" * NONCE_BYTES))
    start(one, other)
    first, one.said = one.said, b""
    other.turn(first)
    one.turn(other.said)
    again = Side(listen("tm-1", TOKEN, b"c" * NONCE_BYTES))
    again.turn(first)
    with pytest.raises(StrangerError):
        again.turn(one.said)


def test_who_connects_is_not_content_with_its_own_words() -> None:
    one = Side(connect(Hello("tm-0", "tm-0", 3), TOKEN, b"a" * NONCE_BYTES))
    one.turn(b"")
    one.said = b""
    one.turn(b"a" * NONCE_BYTES)
    with pytest.raises(StrangerError):
        one.turn(one.said)


def test_each_side_learns_that_the_other_is_of_another_version() -> None:
    one = Side(connect(HELLO, TOKEN, b"a" * NONCE_BYTES))
    other = Side(listen("tm-1", TOKEN, b"b" * NONCE_BYTES, VERSION + 1))
    start(one, other)
    other.turn(one.said)
    one.said = b""
    one.turn(other.said)
    other.said = b""
    with pytest.raises(WorkerLostError, match=f"tm-0 speaks version {VERSION} of the transport, this process"):
        other.turn(one.said)
    with pytest.raises(WorkerLostError, match=f"tm-1 speaks version {VERSION + 1} of the transport, this process"):
        one.turn(other.said)


def test_a_task_manager_where_another_was_is_not_taken_for_it() -> None:
    one = Side(connect(HELLO, TOKEN, b"a" * NONCE_BYTES))
    other = Side(listen("tm-7", TOKEN, b"b" * NONCE_BYTES))
    start(one, other)
    with pytest.raises(WorkerLostError, match="tm-0 looks for tm-1 where tm-7 is"):
        talk(one, other)


def test_the_first_words_are_what_other_versions_expect() -> None:
    one = Side(connect(HELLO, TOKEN, bytes(range(NONCE_BYTES))))
    one.turn(b"")
    assert one.said == MAGIC + bytes(range(NONCE_BYTES))
    one.said = b""
    one.turn(bytes(NONCE_BYTES))
    assert one.said[:-32] == bytes.fromhex("0200 04 04 00 0300000000000000") + b"tm-0tm-1"
    assert one.said[-32:].hex(" ", 8) == "2b2444f2de377d7d 670227e19c7c43a0 b00038bef7b131d8 686ca2c1def05c93"
