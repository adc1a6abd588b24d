"""The handshake of two task managers at the two ends of a connection: who is there, for which attempt, by which link.

Pure: a generator for each side that yields what is to be done, and is sent the bytes that it reads. Nothing is said to
whoever has not shown that it has the token of the job, but for random bytes.

| from | |
|---|---|
| who connects | 8 bytes of magic, 32 random bytes |
| who listens | 32 random bytes |
| who connects | its `Hello`, sealed over the random bytes of both |
| who listens | its `Hello`, sealed likewise, once it makes the same attempt |
| both | an offer of a ring, if both `Hello`s say that there is one |
| both | `YES` or `NO`: whether the ring of the other can be used |
"""

import hmac
import struct
from collections.abc import Generator
from dataclasses import dataclass
from enum import IntFlag

from penstock.model.errors import WorkerLostError

VERSION = 2

MAGIC = b"penstock"
NONCE_BYTES = 32

OFFER_BYTES = 24
"""Length of what goes with the descriptor of a ring."""

_SEAL_BYTES = 32
_HEAD = struct.Struct("<HBBBQ")

YES, NO = b"y", b"n"
"""Answers to an offered ring."""


class StrangerError(Exception):
    """The other end has not shown that it belongs to the job; it is told nothing."""


class Ability(IntFlag):
    """Abilities of a side on this connection."""

    NONE = 0
    RING = 1


@dataclass(frozen=True, slots=True)
class Hello:
    """The words by which a side says who it is, whom it means, and for which attempt (0 to 2**64 - 1)."""

    me: str
    peer: str
    attempt: int
    abilities: Ability = Ability.NONE
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Read:
    """Bring so many bytes, no more: what follows may be the link's."""

    size: int


@dataclass(frozen=True, slots=True)
class Write:
    """Send these bytes."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Recognise:
    """The other end is of the job and says this. Go on, with this side's abilities, when its attempt is made here."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class OfferRing:
    """Send an offer of a ring and its descriptor; without a ring `NO_OFFER`."""


@dataclass(frozen=True, slots=True)
class TryRing:
    """Send `YES` if there is a ring of one's own and the offered one can be used, or else `NO`."""

    offer: bytes


Command = Read | Write | Recognise | OfferRing | TryRing

Handshake = Generator[Command, bytes, bool]
"""It is sent what was read, after `Recognise` one byte of abilities, after `TryRing` what was said, after all else
``b""``; it returns whether both sides can use both rings."""


def connect(hello: Hello, token: bytes, nonce: bytes) -> Handshake:
    """Make the handshake of who connects, with `NONCE_BYTES` random bytes.

    Raises:
        StrangerError: the other side has another token, or is no task manager.
        WorkerLostError: it is of another version, or not the one that was meant.
    """
    yield Write(MAGIC + nonce)
    nonces = nonce + (yield Read(NONCE_BYTES))
    yield Write(_pack(hello, token, b"connects" + nonces))
    answer = yield from _read_hello(token, b"listens" + nonces)
    _check(answer, hello)
    if (answer.me, answer.peer, answer.attempt) != (hello.peer, hello.me, hello.attempt):
        raise WorkerLostError(f"where {hello.peer} was to be reached is {answer.me}, at attempt {answer.attempt}")
    return (yield from _try_rings(answer.abilities & hello.abilities))


def listen(me: str, token: bytes, nonce: bytes, version: int = VERSION) -> Handshake:
    """Make the handshake of who listens, with `NONCE_BYTES` random bytes; it recognises the other before it answers.

    Raises:
        StrangerError: the other side has another token, or is no task manager.
        WorkerLostError: it is of another version, or does not mean this one.
    """
    if (yield Read(len(MAGIC))) != MAGIC:
        raise StrangerError("it does not begin as task managers do")
    nonces = (yield Read(NONCE_BYTES)) + nonce
    yield Write(nonce)
    hello = yield from _read_hello(token, b"connects" + nonces)
    if hello.peer != me:
        raise WorkerLostError(f"{hello.me} looks for {hello.peer} where {me} is")
    abilities = Ability((yield Recognise(hello))[0])
    answer = Hello(me, hello.me, hello.attempt, abilities, version)
    yield Write(_pack(answer, token, b"listens" + nonces))
    _check(hello, answer)
    return (yield from _try_rings(abilities & hello.abilities))


def _try_rings(abilities: Ability) -> Generator[Command, bytes, bool]:
    if Ability.RING not in abilities:
        return False
    yield OfferRing()
    own = yield TryRing((yield Read(OFFER_BYTES)))
    other = yield Read(len(YES))
    return own == other == YES


def _check(other: Hello, own: Hello) -> None:
    if other.version != own.version:
        raise WorkerLostError(
            f"{other.me} speaks version {other.version} of the transport, this process version {own.version}: "
            "run the same Penstock everywhere"
        )


def _pack(hello: Hello, token: bytes, sealed: bytes) -> bytes:
    me, peer = hello.me.encode(), hello.peer.encode()
    words = _HEAD.pack(hello.version, len(me), len(peer), hello.abilities, hello.attempt) + me + peer
    return words + hmac.digest(token, sealed + words, "sha256")


def _read_hello(token: bytes, sealed: bytes) -> Generator[Command, bytes, Hello]:
    head = yield Read(_HEAD.size)
    version, me, peer, abilities, attempt = _HEAD.unpack(head)
    names = yield Read(me + peer + _SEAL_BYTES)
    names, seal = names[:-_SEAL_BYTES], names[-_SEAL_BYTES:]
    if not hmac.compare_digest(seal, hmac.digest(token, sealed + head + names, "sha256")):
        raise StrangerError("it has another token")
    return Hello(names[:me].decode(), names[me:].decode(), attempt, Ability(abilities), version)
